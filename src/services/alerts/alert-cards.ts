import type { DurableEvent } from '../../base/events/destination.ts';
import { readAmount } from '../../base/lib/amounts.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { shorten } from '../../base/lib/shorten.ts';
import type { Approval } from '../../base/model/approval.ts';
import type { BudgetAlert, BudgetLevel } from '../../base/model/budget-limit.ts';
import type { QuarantineEntry } from '../../base/model/quarantine-entry.ts';
import type { RiskAlert } from '../../base/model/risk-alert.ts';
import type { AlertCard, AlertFact } from '../../outbound/destinations/alert-card.ts';
import { onApproval } from '../approval-standing.ts';

/** Of what strangers chose. */
const SHOWN = 300;
const TONES: Readonly<Record<BudgetLevel, AlertCard['tone']>> = { warning: 'warning', critical: 'critical', exceeded: 'critical' };
const NEAR: Readonly<Record<BudgetLevel, string>> = {
  warning: 'has reached its warning threshold',
  critical: 'has reached its critical threshold',
  exceeded: 'is spent',
};

type Said = Pick<AlertCard, 'title' | 'tone' | 'text' | 'facts'> & Pick<Partial<AlertCard>, 'command' | 'link'>;
type Fact = readonly [name: string, value: string | undefined];

/** Where people find the gateway, each without a slash at the end. */
export interface GatewayPlace {
  /** Of the management API, for what they are told to type. */
  readonly url: string;
  /** Of pages; undefined: nobody knows where those that are alerted would find them (decision 11.4). */
  readonly pages: string | undefined;
}

/** What an alert of an event says; undefined for one of which nobody is alerted. */
export function cardOf(event: DurableEvent, alertId: string, place: GatewayPlace): AlertCard | undefined {
  const said = saidOf(event, place);
  return said && { ...said, alertId, at: timestamp(event.at) };
}

/** An alert that says that alerts arrive. */
export function testCard(alertId: string, channelName: string, orgId: string, epochMs: number): AlertCard {
  return {
    alertId,
    title: 'Test alert',
    tone: 'info',
    text: 'Somebody has asked for this alert to see whether it arrives. Nothing has happened.',
    facts: facts(['test', 'true'], ['channel', channelName], ['org_id', orgId]),
    at: timestamp(epochMs),
  };
}

function saidOf(durable: DurableEvent, place: GatewayPlace): Said | undefined {
  if (durable.name === 'budgetAlert') return budget(durable.event);
  if (durable.name === 'approval') return durable.event.status === 'pending' ? approval(durable.event, place) : undefined;
  if (durable.name === 'quarantine') return durable.event.released_at === null ? quarantine(durable.event, place.url) : undefined;
  return durable.name === 'riskNotice' ? risk(durable.event) : undefined;
}

/** Decision 11.2 has the members. */
function budget({ limit, level, periodStart, spentUsd }: BudgetAlert): Said {
  const pct = percentOf(spentUsd, limit.limit_usd);
  const whose = limit.scope === 'org' ? `org ${limit.org_id}` : `${limit.scope} ${limit.scope_id ?? ''}`;
  return {
    title: `Budget ${level}: ${whose} at ${pct} %`,
    tone: TONES[level],
    text: `The ${limit.period} budget of ${whose} ${NEAR[level]}: $${spentUsd} of $${limit.limit_usd}.`,
    facts: facts(
      ['type', 'budget_alert'],
      ['level', level],
      ['spent_usd', spentUsd],
      ['limit_usd', limit.limit_usd],
      ['pct', pct],
      ['scope', limit.scope],
      ['scope_id', limit.scope_id],
      ['period', limit.period],
      ['period_start', periodStart],
      ['org_id', limit.org_id],
      ['limit_id', limit.limit_id],
    ),
  };
}

/** What an approver needs to see. */
function approval(waiting: Approval, { url, pages }: GatewayPlace): Said {
  const { action, approval_id: id } = waiting;
  return {
    title: `Approval needed: ${action.type} to ${action.target_origin ?? action.target_host}`,
    tone: 'warning',
    text: `A request of the workload ${waiting.workload_id} waits until ${waiting.expires_at} for somebody to approve or deny it: ${waiting.reason}`,
    facts: facts(
      ['workload_id', waiting.workload_id],
      ['caller_id', waiting.caller_id],
      ['caller_ip', waiting.caller_ip],
      ['project_id', waiting.attribution.project_id],
      ['delegation_id', waiting.delegation_id],
      ['principal_id', waiting.principal_id],
      ['action', action.type],
      ['connector_id', action.connector_id],
      ['target', `${action.method} ${action.target_origin ?? action.target_host}${action.target_path}`],
      ['model', action.model],
      ['credential_id', waiting.credential_id],
      ['estimated_cost_usd', waiting.estimated_cost_usd],
      ['on_approval', onApproval(waiting, Date.parse(waiting.created_at))],
      ['reason', waiting.reason],
      ['rules', waiting.rule_ids.join(', ')],
      ['expires_at', waiting.expires_at],
      ['org_id', waiting.org_id],
      ['approval_id', id],
      ['record_id', waiting.record_id],
    ),
    ...(pages === undefined ? {} : { link: { title: 'Look at it and decide', url: `${pages}/approvals/${id}` } }),
    command: [
      `gw approvals approve ${id}`,
      `gw approvals deny ${id}`,
      `curl -X POST -H "Authorization: Bearer $GW_MGMT_KEY" ${url}/mgmt/v1/approvals/${id}/approve`,
    ].join('\n'),
  };
}

function quarantine(entry: QuarantineEntry, gatewayUrl: string): Said {
  const whom = entry.caller_id ?? entry.caller_ip ?? 'everybody';
  return {
    title: `Quarantine: ${whom} of ${entry.workload_id}`,
    tone: 'critical',
    text: `Policy has put ${whom} of the workload ${entry.workload_id} into quarantine until somebody releases it: ${entry.reason}`,
    facts: facts(
      ['workload_id', entry.workload_id],
      ['caller_id', entry.caller_id],
      ['caller_ip', entry.caller_ip],
      ['action', entry.action_type],
      ['reason', entry.reason],
      ['risk_score', String(entry.risk_score)],
      ['org_id', entry.org_id],
      ['quarantine_id', entry.quarantine_id],
      ['record_id', entry.record_id],
    ),
    command: `curl -X POST -H "Authorization: Bearer $GW_MGMT_KEY" ${gatewayUrl}/mgmt/v1/quarantine/${entry.quarantine_id}/release`,
  };
}

function risk(alert: RiskAlert): Said {
  const who = alert.caller_id ?? alert.workload_id;
  return {
    title: `Unusual behaviour: ${who}, risk score ${alert.risk_score}`,
    tone: 'critical',
    text: `The requests of ${who} (workload ${alert.workload_id}) are unusual: ${alert.signals.join(', ')}.`,
    facts: facts(
      ['risk_score', String(alert.risk_score)],
      ['signals', alert.signals.join(', ')],
      ['request_rate', `${alert.request_rate} a minute`],
      ['cost_rate', `$${alert.cost_rate} a minute`],
      ['workload_id', alert.workload_id],
      ['caller_id', alert.caller_id],
      ['org_id', alert.org_id],
      ['record_id', alert.record_id],
    ),
  };
}

function facts(...all: readonly Fact[]): readonly AlertFact[] {
  return all.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [{ name, value: shorten(value, SHOWN) }]));
}

/** Of one decimal, rounded down. */
function percentOf(spentUsd: string, limitUsd: string): string {
  const [spent, limit] = [readAmount(spentUsd) ?? 0n, readAmount(limitUsd) ?? 0n];
  if (limit === 0n) return '100.0';
  const tenths = (spent * 1_000n) / limit;
  return `${tenths / 10n}.${tenths % 10n}`;
}
