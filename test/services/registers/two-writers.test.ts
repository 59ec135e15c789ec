// Two nodes on one store: what one changes the other says at once, for everything that a node keeps in memory of what
// is stored. The table has a row for each space that is watched.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { openResources, type Resources } from '../../../src/app/resources.ts';
import { loadConfig } from '../../../src/base/config/config.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { chatUserId } from '../../../src/base/model/chat-user.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import type { Principal } from '../../../src/base/model/principal.ts';
import { commitAlone } from '../../../src/services/registers/commit.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { eventually } from '../../support/child.ts';
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts';
import { given, listOf } from '../../support/price-lists.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const BUNDLE = (id: string) =>
  `schema: gw.policy_bundle.v1\nbundle_id: ${id}\nversion: "1"\ninline_rules: {risk: [{id: ok, effect: {decision: allow}}]}\n`;
const OVERLAY = BUNDLE('over').replace('id: ok', 'id: more');
const ADMIN: Principal = { kind: 'admin', id: 'admin', scopes: ['admin'] };
const ADMIN_TOKEN = 'an-admin-token-of-this-test-alone-0123456789';
const OLGA = { platform: 'slack', team_id: 'T0', user_id: 'U0' } as const;
const CALLER = { orgId: 'acme', workloadId: 'ci', callerId: 'alice', callerIp: '192.0.2.1' };

/** What the places of a scene have made, by name. */
type Made = Record<string, string>;

interface Row {
  /** A change through one node. */
  readonly change: (one: Resources, made: Made, clock: FakeClock) => unknown;
  /** What the other then says. */
  readonly seen: (other: Resources, made: Made) => unknown;
  readonly says: unknown;
}

const limit = (made: Made) => made['limit'] ?? '';

/** By the space of the store, in the order in which they are changed. */
const ROWS: Readonly<Record<string, Row>> = {
  workload: {
    change: ({ workloads }) => workloads.put({ org_id: 'acme', workload_id: 'ci' }),
    seen: ({ workloads }) => workloads.get('acme', 'ci')?.workload_id,
    says: 'ci',
  },
  workload_token: {
    change: ({ workloads }) => workloads.issueToken({ org_id: 'acme', workload_id: 'ci' }),
    seen: ({ workloads }) => workloads.hasToken('acme', 'ci'),
    says: true,
  },
  project: {
    change: ({ projects }) => projects.create('acme', 'apollo', {}),
    seen: ({ projects }) => projects.get('acme', 'apollo')?.status,
    says: 'active',
  },
  org_defaults: {
    change: ({ workloads }, _made, clock) => workloads.orgDefaults.change('acme', { project_id: 'apollo' }, { clock }),
    seen: ({ workloads }) => workloads.defaultAttribution('acme'),
    says: { project_id: 'apollo' },
  },
  org_status: { change: ({ orgs }) => orgs.suspend('globex', undefined), seen: ({ orgs }) => orgs.isActive('globex'), says: false },
  org_plan: {
    change: ({ orgPlans }) => orgPlans.put('acme', { monthly_request_limit: 7 }),
    seen: ({ orgPlans }) => orgPlans.of('acme').limit,
    says: 7,
  },
  management_key: {
    change: async ({ managementKeys }, made) => {
      const asked = { orgId: 'acme', name: 'olga', expiresAtMs: undefined, kind: 'management', scopes: ['read'] } as const;
      const { plain, key } = await managementKeys.create(asked);
      made['management'] = plain;
      await managementKeys.judge('management', plain);
      await managementKeys.revoke(key.id, undefined);
    },
    seen: async ({ managementKeys }, made) => [
      (await managementKeys.judge('management', made['management'] ?? '')).result,
      (await managementKeys.list('acme')).length,
    ],
    says: ['revoked', 0],
  },
  chat_user: {
    change: async ({ chatUsers, managementKeys, store }, made) => {
      const { key } = await managementKeys.create({
        orgId: 'initech',
        name: 'ben',
        expiresAtMs: undefined,
        kind: 'management',
        scopes: ['approve'],
      });
      made['chat key'] = key.id;
      const code = await chatUsers.invite(OLGA);
      const principal: Principal & { readonly orgId: string } = {
        kind: 'management_key',
        id: key.id,
        orgId: 'initech',
        scopes: ['decide'],
      };
      await chatUsers.bind(chatUserId(OLGA), code, principal, commitAlone(store));
    },
    seen: async ({ chatUsers }, made) => {
      const holder = await chatUsers.holderOf(OLGA);
      return holder.kind === 'bound' && holder.principal.id === made['chat key'];
    },
    says: true,
  },
  console_session: {
    change: async ({ consoleSessions, store }, made) => {
      const where = { address: '127.0.0.1', browser: 'a browser' };
      const begun = await consoleSessions?.signIn(ADMIN_TOKEN, where, () => commitAlone(store));
      made['cookie'] = begun?.value ?? '';
    },
    seen: async ({ consoleSessions }, made) => (await consoleSessions?.personOf(made['cookie'] ?? ''))?.principal.kind,
    says: 'session',
  },
  api_key: {
    change: async ({ apiKeys }, made) => {
      made['key'] = (await apiKeys.create({ orgId: 'acme', name: 'app', expiresAtMs: undefined })).plain;
    },
    seen: async ({ apiKeys }, made) => [(await apiKeys.judge(made['key'] ?? '')).result, (await apiKeys.list('acme')).length],
    says: ['valid', 1],
  },
  credential: {
    change: ({ credentials }) =>
      credentials.put({ org_id: 'acme', credential_id: 'main', connector_id: 'openai', mode: 'alias', secret_ref: 'sk' }),
    seen: ({ credentials }) => [credentials.secretOf('acme', 'main'), credentials.usable('acme', 'openai').length],
    says: ['sk', 1],
  },
  custom_connector: {
    change: ({ customConnectors }) =>
      customConnectors.create('acme', { name: 'own', base_url: 'https://llm.example/v1', auth_mode: 'bearer' }),
    seen: ({ customConnectors, catalogues }) => [
      customConnectors.list('acme').length,
      catalogues.current().forOrg('acme').providerForHost('llm.example') !== undefined,
    ],
    says: [1, true],
  },
  policy: {
    change: ({ policies }) => policies.put(BUNDLE('put')),
    seen: ({ policies }) => [policies.current().bundle_id, policies.current().source],
    says: ['put', 'api'],
  },
  policy_overlay: {
    change: ({ policies }) => policies.putOverlay({ org_id: 'acme', level: 'org' }, OVERLAY, () => undefined),
    seen: ({ policies }) => policies.current('acme').policy.ruleCount > policies.current().policy.ruleCount,
    says: true,
  },
  org_addons: {
    change: ({ addons }) => addons.set('acme', 'provider-openai', 'routing', false),
    seen: ({ addons }) => addons.known('acme', 'provider-openai').enabled,
    says: false,
  },
  auto_allowed: {
    change: ({ policies, store }) => policies.changeAutoRules('acme', ['openai'], (effects) => store.commit(undefined, effects)),
    seen: ({ policies }) => policies.autoRules('acme')?.includes('auto.allow.openai'),
    says: true,
  },
  price_list: {
    change: ({ prices, store }) =>
      prices.lists.take(given(listOf({ m: { input_mtok: 3 } }), { name: 'new.json' }), { by: 'admin', commit: commitAlone(store) }),
    seen: ({ prices }) => prices.lists.inForce.name,
    says: 'new.json',
  },
  delegation_revoked: {
    change: ({ delegations }) => delegations.revoke({ delegation_id: 'd' }),
    seen: ({ delegations }) => delegations.revoked().length,
    says: 1,
  },
  approval_pending: {
    change: ({ approvals }) =>
      approvals.ask({
        org_id: 'acme',
        workload_id: 'ci',
        reason: 'ask first',
        reason_codes: [],
        rules: [{ id: 'risk/ask', hash: 'h', reason: undefined }],
        connection_type: 'direct_api',
        attribution: {},
        action: { type: 'ai.infer', method: 'POST', target_host: 'h', target_path: '/', stream: false, param_sizes: {} },
        action_hash: 'a',
        record_id: 'r',
        content: () => '',
      }),
    seen: ({ approvals }) => approvals.pending,
    says: 1,
  },
  approval_held: {
    change: async ({ approvals }) => {
      const { items } = await approvals.page({ status: 'pending' }, { after: undefined, limit: 1 });
      const [waiting] = items;
      // Until the node is closed.
      if (waiting) void approvals.hold(waiting, { until: Number.MAX_SAFE_INTEGER / 4096, bytes: 0, onLeft: () => () => undefined });
    },
    seen: async ({ approvals }) => (await approvals.page({ status: 'pending' }, { after: undefined, limit: 1 })).items[0]?.held?.calls,
    says: 1,
  },
  quarantine_active: {
    change: async ({ quarantines, store }) => {
      const made = quarantines.hold(CALLER, { reason: 'odd', reason_codes: [] });
      const record = { record_id: 'r', org_id: 'acme', workload_id: 'ci', caller_id: 'alice', action_type: 'ai.infer' } as ExecutionRecord;
      await store.commit(undefined, made?.effects(record) ?? []);
      made?.stored();
    },
    seen: ({ quarantines }) => quarantines.holding(CALLER)?.reason,
    says: 'odd',
  },
  stops: {
    change: ({ stops }) => stops.make({ scope: { org: 'acme' }, reason: 'a leak', until: undefined, principal: ADMIN }),
    seen: ({ stops }) => stops.list('acme').map(({ reason }) => reason),
    says: ['a leak'],
  },
  alert_channel: {
    change: async ({ alerts }, made) => {
      const config = { webhook_url: 'https://hooks.slack.com/services/x' };
      made['channel'] = (await alerts.channels.create('acme', { name: 'ops', kind: 'slack', config })).channel_id;
    },
    seen: ({ alerts }, made) => alerts.channels.open(made['channel'] ?? '')?.name,
    says: 'ops',
  },
  alert_subscription: {
    change: async ({ alerts }, made) => {
      const { subscription_id: id } = await alerts.subscriptions.create('acme', made['channel'] ?? '', {
        event: 'approval',
      });
      made['subscription'] = id;
    },
    seen: ({ alerts }) => alerts.subscriptions.list('acme').length,
    says: 1,
  },
  alert_subscription_alerted: {
    change: ({ alerts }, made) => alerts.subscriptions.note(made['subscription'] ?? '', 'a', { at: 'then', level: null }, []),
    seen: ({ alerts }, made) => alerts.subscriptions.get('acme', made['subscription'] ?? '')?.last_alerted_at,
    says: 'then',
  },
  export_destination: {
    change: ({ exports }) =>
      exports.destinations.create('acme', { name: 'siem', kind: 'webhook', config: { url: 'https://siem.example/x' } }),
    seen: ({ exports }) => exports.destinations.list('acme').length,
    says: 1,
  },
  budget_limit: {
    change: async ({ budgets }, made) => {
      made['limit'] = '0199-limit';
      await budgets.create({
        limit_id: limit(made),
        org_id: 'acme',
        scope: 'org',
        limit_usd: '5',
        period: 'daily',
        warning_threshold_pct: 80,
        critical_threshold_pct: 95,
        actions: ['cap'],
        created_at: '2026-11-21T12:00:00.000Z',
      });
    },
    seen: ({ budgets }) => budgets.list('acme').length,
    says: 1,
  },
  budget_override: {
    change: ({ budgets }, made, clock) => budgets.override(limit(made), 'acme', { limitUsd: '9', until: clock.now() + 60_000 }),
    seen: ({ budgets }) => budgets.list('acme')[0]?.override?.limit_usd,
    says: '9',
  },
  rate_limit: {
    change: ({ rateLimits }) => rateLimits.configs.put(undefined, { refill_rate: 50, max_tokens: 50, window_duration: '1m' }),
    seen: ({ rateLimits }) => rateLimits.configs.of().refill_rate,
    says: 50,
  },
  rate_limit_org: {
    change: ({ rateLimits }) => rateLimits.configs.put('acme', { refill_rate: 40, max_tokens: 40, window_duration: '1m' }),
    seen: ({ rateLimits }) => rateLimits.configs.of('acme').refill_rate,
    says: 40,
  },
  rate_limit_workload: {
    change: ({ rateLimits }) =>
      rateLimits.configs.putWorkloadRate({
        org_id: 'acme',
        workload_id: 'ci',
        requests_per_minute: 3,
        created_at: '2026-11-21T12:00:00.000Z',
      }),
    seen: ({ rateLimits }) => rateLimits.configs.workloadRates('acme').length,
    says: 1,
  },
  discovered_domain: {
    change: async ({ discovery }) => {
      discovery?.events.connected?.({ host: 'chat.example', trafficClass: 'developer', orgId: 'acme', workloadId: 'ci' });
      await discovery?.save();
    },
    seen: ({ discovery }) => discovery?.listOf('acme', {}).map(({ domain, hits }) => [domain, hits]),
    says: [['chat.example', 1]],
  },
  discovered_other: {
    change: ({ store }) =>
      store.commit(undefined, [{ op: 'put', space: 'discovered_other', key: 'other', value: { domains: 3, connections: 4, requests: 5 } }]),
    seen: ({ discovery }) => discovery?.list().other.hits,
    says: 9,
  },
};

/**
 * Watched for the bounds of orgs alone where there is no control plane; `looked-up-keys.test.ts` has two nodes with
 * one.
 */
const ELSEWHERE = ['remote_api_key'];

/** What a start reads and nobody is told of, and why another node's changes need not be heard. */
const NOT_WATCHED: Readonly<Record<string, string>> = {
  alert_history: 'named by org once for a folder; asked of the store',
  approval: 'named by org once for a folder; asked of the store',
  quarantine: 'named by org once for a folder; asked of the store',
  export_dead_letter: 'named by org once for a folder; asked of the store',
  attributed_name: 'names that have a counter already: a node that does not know one adds to the same counter',
  node: 'which name wrote here before writers had names of their own',
  budget_alerted: 'how far a limit was told of when the node started',
  budget_alert_posted: 'how far a limit was told of when the node started',
  budget_refused: 'which refusals were told of when the node started; of two that tell one the first does',
  deferred_usage: 'each is of one node; what a node leaves that is gone is looked for from time to time',
  idempotent_expiry: 'when answers are removed that were kept before the start',
  intent: 'what was under way when the node ended',
  outbox: 'the own events of a writer',
  outbox_cursor: 'the own events of a writer',
  control_plane_contact: 'the own contact of a node',
  remote_addons: 'which version of a control plane was taken',
  remote_bundle: 'which bundle of a control plane was taken',
  remote_keys: 'which keys of a control plane were taken',
  remote_version: 'which version of a control plane was taken',
};

/** A node on the store of all, with what its opening watches and what it reads. */
async function node(t: HasTeardown, shared: Store, clock: FakeClock, name: string, policies: string) {
  const watched = new Set<string>();
  const read = new Set<string>();
  const noted = { watch: watched, list: read, entities: read };
  const store = new Proxy(shared, {
    get(target, member) {
      const value: unknown = Reflect.get(target, member, target);
      if (typeof value !== 'function') return value;
      if (member === 'close') return () => Promise.resolve();
      return (...args: unknown[]): unknown => {
        const set: Set<string> | undefined = Reflect.get(noted, member);
        if (set !== undefined && typeof args[0] === 'string') set.add(args[0]);
        return Reflect.apply(value, target, args);
      };
    },
  });
  const dir = tempDir(t);
  const env = {
    GW_DATA_DIR: join(dir, 'data'),
    GW_CA_DIR: join(dir, 'ca'),
    GW_POLICIES_DIR: policies,
    GW_NODE_ID: name,
    GW_ADMIN_TOKEN: ADMIN_TOKEN,
    GW_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    GW_PROXY_MITM_ENABLED: 'false',
    GW_APPROVAL_ENABLED: 'true',
  };
  const closers: (() => Promise<void>)[] = [];
  const { config } = loadConfig(env, false);
  const resources = await openResources(config, { clock, log: silentLogger, store: () => store }, closers);
  t.teardown(async () => {
    for (const close of closers.reverse()) await close();
  });
  return { resources, watched: new Set(watched), read: new Set(read) };
}

t.test('what one node changes counts at the other at once, whatever it is', async (t) => {
  const clock = fakeClock();
  const dir = tempDir(t);
  mkdirSync(join(dir, 'policies'));
  writeFileSync(join(dir, 'policies', 'bundle.yaml'), BUNDLE('folder'));
  const shared = await openEmbeddedStore({ dir: join(dir, 'store'), fsync: 'off', clock, log: silentLogger });
  const one = await node(t, shared, clock, 'one', join(dir, 'policies'));
  const other = await node(t, shared, clock, 'other', join(dir, 'policies'));
  t.strictSame([...one.watched].sort(), [...Object.keys(ROWS), ...ELSEWHERE].sort(), 'each space that is watched has a row');
  t.strictSame(
    [...one.read].filter((space) => !one.watched.has(space)).sort(),
    Object.keys(NOT_WATCHED).sort(),
    'and no other is read at a start',
  );
  const made: Made = {};
  for (const [space, { change, seen, says }] of Object.entries(ROWS)) {
    await change(one.resources, made, clock);
    const found = await eventually(space, async () => {
      const now = await seen(other.resources, made);
      return isDeepStrictEqual(now, says) ? { now } : undefined;
    });
    t.ok(found, space);
  }
  t.teardown(() => shared.close());
});
