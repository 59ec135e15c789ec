import type { Registry } from 'prom-client';
import type { Listeners } from '../../base/events/bus.ts';
import { type AuthFailureEvent, BUNDLE_FAULTS } from '../../base/events/events.ts';
import type { BudgetAlert } from '../../base/model/budget-limit.ts';
import { Buckets, registerHistogram } from './histogram.ts';
import { METRICS } from './metric-table.ts';
import { counter } from './registered.ts';

/**
 * A counter that alerts look at is there before it counts: the first step of one that comes to be with it cannot be
 * seen as a rise.
 */
const AUTH_FAILURES: readonly AuthFailureEvent['reason'][] = ['missing_header', 'invalid_key', 'revoked', 'expired', 'suspended'];

/**
 * Counts what people change, who is let in, and what policies say beside the decisions of records. `org` folds what
 * nobody configured; `ownOrg` is that of the gateway.
 */
export function controlListeners(registry: Registry, org: (id: string) => string, ownOrg: string): Listeners {
  const budgetAlerts = counter(registry, METRICS.budgetAlerts);
  const policyLoads = counter(registry, METRICS.policyLoads);
  const bundlesRejected = counter(registry, METRICS.bundlesRejected);
  const syncLag = new Buckets(METRICS.configSyncLag.buckets);
  registerHistogram(registry, METRICS.configSyncLag, [[{}, syncLag]]);
  for (const reason of BUNDLE_FAULTS) bundlesRejected(reason);
  const shadowDecisions = counter(registry, METRICS.shadowDecisions);
  const authFailures = counter(registry, METRICS.authFailures);
  const apiKeyLookups = counter(registry, METRICS.apiKeyLookups);
  const delegations = counter(registry, METRICS.delegations);
  const changes = counter(registry, METRICS.changes);
  const approvals = counter(registry, METRICS.approvals);
  const quarantined = counter(registry, METRICS.quarantined);
  quarantined(ownOrg);
  const chatClicks = counter(registry, METRICS.chatClicks);
  for (const level of ['warning', 'critical', 'exceeded'] satisfies BudgetAlert['level'][]) budgetAlerts(ownOrg, level);
  for (const reason of AUTH_FAILURES) authFailures(reason, ownOrg);
  for (const bundle of ['active', 'shadow']) for (const trigger of ['put', 'reload', 'watch']) policyLoads(bundle, trigger, 'refused');
  policyLoads('active', 'control_plane', 'refused');
  return {
    budgetAlert: ({ limit, level }) => budgetAlerts(org(limit.org_id), level).inc(),
    policyLoad: ({ bundle, trigger, result }) => policyLoads(bundle, trigger, result).inc(),
    bundleRejected: (reason) => bundlesRejected(reason).inc(),
    configSynced: (seconds) => syncLag.observe(seconds),
    shadowDecision: ({ active, shadow }) => shadowDecisions(active, shadow).inc(),
    authFailure: ({ reason, orgId }) => authFailures(reason, org(orgId)).inc(),
    apiKeyLookup: (result) => apiKeyLookups(result).inc(),
    delegationShown: (result) => delegations(result).inc(),
    audit: ({ operation }) => changes(operation).inc(),
    approval: ({ org_id: orgId, status }) => approvals(org(orgId), status).inc(),
    chatClick: ({ platform, outcome }) => chatClicks(platform, outcome).inc(),
    quarantine: ({ org_id: orgId, released_at: released }) => {
      if (released === null) quarantined(org(orgId)).inc();
    },
  };
}
