// Arguments as models guess them (decision 10.15): each guess is what the operation reads, and what is no guess is said
// with what would have been right.
import t from 'tap';
import type { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';

/** A Thursday. */
const NOW = Date.parse('2026-11-26T10:30:00Z');

type Args = Readonly<Record<string, unknown>>;

function asked(tool: string, args: Args): { readonly path: string; readonly body?: unknown } {
  const request = TOOLS.requestOf(tool, args, () => NOW);
  if ('answer' in request) throw new TypeError(`${tool} asks nothing`);
  return request;
}

/** Each guess, and what says the same by the tool's own names. */
const GUESSES: readonly (readonly [tool: string, guess: Args, own: Args])[] = [
  ['delete_workload', { id: 'ci' }, { workload_id: 'ci' }],
  ['delete_workload', { workload: 'ci' }, { workload_id: 'ci' }],
  ['delete_workload', { workloadId: 'ci' }, { workload_id: 'ci' }],
  ['delete_workload', { 'Workload-ID': 'ci' }, { workload_id: 'ci' }],
  ['create_workload', { id: 'ci', display_name: 'CI' }, { workload_id: 'ci', name: 'CI' }],
  ['create_project', { id: 'apollo', name: 'Apollo' }, { project_id: 'apollo', display_name: 'Apollo' }],
  ['get_record', { record_id: 'x' }, { record_hash: 'x' }],
  ['get_record', { id: 'x' }, { record_hash: 'x' }],
  ['explain_record', { record_hash: 'x' }, { record_id: 'x' }],
  ['explain_record', { call_id: 'x' }, { record_id: 'x' }],
  ['list_approvals', { status: 'open' }, { status: 'pending' }],
  ['list_approvals', { state: 'Pending' }, { status: 'pending' }],
  ['list_approvals', { filter: 'WAITING', page_size: '5' }, { status: 'pending', limit: 5 }],
  ['list_approvals', { status: 'rejected', workload_id: null }, { status: 'denied' }],
  ['approve_request', { id: 'a', comment: 'fine', by: 'eve' }, { approval_id: 'a', reason: 'fine', decided_by: 'eve' }],
  ['list_quarantine', { status: 'active' }, { active: true }],
  ['list_quarantine', { active: 'yes' }, { active: true }],
  ['release_quarantine', { quarantine: 'q' }, { quarantine_id: 'q' }],
  ['list_projects', { status: 'Inactive' }, { status: 'archived' }],
  ['list_records', { status: 'Denied', since: 'yesterday' }, { decision: 'deny', from: '2026-11-25' }],
  ['list_records', { outcome: 'blocked', max_results: 3 }, { decision: 'deny', limit: 3 }],
  [
    'list_records',
    { workload: 'ci', project_id: 'p', start_date: '2026-11-01', end_date: '2026-11-02' },
    { workload_id: 'ci', project: 'p', from: '2026-11-01', to: '2026-11-02' },
  ],
  ['list_records', { period: 'last 7 days' }, { from: '2026-11-19T10:30:00.000Z', to: '2026-11-26T10:30:00.000Z' }],
  ['list_records', { from: '-24h' }, { from: '2026-11-25T10:30:00.000Z' }],
  ['list_records', { from: '2026-11-25 08:00' }, { from: '2026-11-25T08:00:00Z' }],
  ['list_records', { from: 'today', min_cost: '0.5' }, { from: '2026-11-26', min_cost_usd: 0.5 }],
  ['list_records', { period: 'last hour' }, { from: '2026-11-26T09:30:00.000Z', to: '2026-11-26T10:30:00.000Z' }],
  ['list_records', { from: 'monday' }, { from: '2026-11-23' }],
  ['list_records', { since: 'last thursday' }, { from: '2026-11-19' }],
  ['list_records', { from: 'yesterday 14:00' }, { from: '2026-11-25T14:00:00.000Z' }],
  ['list_records', { from: '2026/11/25', to: '2026/11/26' }, { from: '2026-11-25', to: '2026-11-26' }],
  ['list_records', { date: 'yesterday', cost_doubt: true }, { from: '2026-11-25', to: '2026-11-25', cost_doubt: 'any' }],
  ['list_records', { min_cost: '$0.01' }, { min_cost_usd: 0.01 }],
  ['get_billing_summary', { since: 'monday' }, { from: '2026-11-23', to: '2026-11-26' }],
  ['get_cost_report', { by: ['user', 'model'], period: 'last week' }, { by: 'caller,model', from: '2026-11-16', to: '2026-11-22' }],
  [
    'get_cost_report',
    { group_by: 'project_id', per: 'daily', since: '7d' },
    { by: 'project', per: 'day', from: '2026-11-20', to: '2026-11-26' },
  ],
  [
    'get_cost_report',
    { group_by: 'model', project_id: 'apollo', workload_id: 'ci', user: 'ben', vendor: 'openai', tag: 'team=red' },
    { by: 'model', project: 'apollo', workload: 'ci', caller: 'ben', provider: 'openai', label: 'team=red' },
  ],
  ['get_cost_report', { by: 'label:team', last: '30 days' }, { by: 'label:team', from: '2026-10-28', to: '2026-11-26' }],
  [
    'list_audit',
    { action: 'policies', who: 'ben', since: 'today' },
    { operation: 'policies', principal: 'ben', from: '2026-11-26T00:00:00.000Z' },
  ],
  ['list_discovered_domains', { unmanaged: true, since: 'yesterday' }, { managed: false, from: '2026-11-25T00:00:00.000Z' }],
  ['list_budget_limits', { project: 'apollo' }, { scope: 'project', scope_id: 'apollo' }],
  ['list_providers', { provider: 'mistral', status: 'enabled' }, { provider: 'mistral', enabled: true }],
  ['list_records', { label: 'team=red' }, { label_key: 'team', label_value: 'red' }],
  ['list_records', { labels: { team: 'red' } }, { label_key: 'team', label_value: 'red' }],
  ['list_records', { label: 'team' }, { label_key: 'team' }],
  ['get_attribution_label', { label: 'team=red' }, { label_key: 'team=red' }],
  ['set_budget_override', { id: 'l', cap: 5, for: '2 days' }, { limit_id: 'l', limit_usd: '5', until: '2026-11-28T10:30:00.000Z' }],
  ['set_budget_override', { id: 'l', cap: 5, until: 'friday 18:00' }, { limit_id: 'l', limit_usd: '5', until: '2026-11-27T18:00:00.000Z' }],
  ['create_alert_subscription', { channel: 'c', event: 'approvals' }, { channel_id: 'c', event: 'approval' }],
  [
    'create_budget_limit',
    { provider: 'openai', amount: '100 USD', warn_at: '70%' },
    { scope: 'provider', scope_id: 'openai', limit_usd: '100', warning_threshold_pct: 70 },
  ],
  ['list_providers', { kind: 'presets' }, { kind: 'policy_preset' }],
  ['test_policy', { calls: [{ 'workload.id': 'ci' }] }, { requests: [{ 'workload.id': 'ci' }] }],
  ['list_quarantine', { released: 'yes' }, { active: false }],
  ['set_provider_mode', { provider: 'mistral', mode: 'off' }, { provider: 'mistral', mode: 'routing', state: 'disable' }],
  ['set_provider_mode', { provider: 'mistral', enabled: true }, { provider: 'mistral', mode: 'routing', state: 'enable' }],
  [
    'create_alert_channel',
    { name: 'ops', type: 'slack', webhook_url: 'https://hooks.slack.com/x' },
    { name: 'ops', kind: 'slack', config: { webhook_url: 'https://hooks.slack.com/x' } },
  ],
  [
    'create_alert_channel',
    { name: 'ops', kind: 'mail', email: 'a@example.com' },
    { name: 'ops', kind: 'email', config: { to_addresses: ['a@example.com'] } },
  ],
  [
    'create_export_destination',
    { name: 'siem', kind: 'webhook', url: 'https://siem.example.com/', token: 't', events: ['audit'] },
    { name: 'siem', kind: 'webhook', config: { url: 'https://siem.example.com/', token: 't' }, event_types: ['audit'] },
  ],
  [
    'update_workload',
    { workload_id: 'ci', project: 'zeus', default_attribution: { customer: 'acme' } },
    { workload_id: 'ci', default_attribution: { project_id: 'zeus', customer_id: 'acme' } },
  ],
  [
    'update_workload',
    { id: 'ci', allowed_connection_types: null, attribution: null },
    { workload_id: 'ci', allowed_connection_types: null, default_attribution: null },
  ],
  [
    'update_workload',
    { id: 'ci', labels: 'team=blue, env=prod' },
    { workload_id: 'ci', default_attribution: { labels: { team: 'blue', env: 'prod' } } },
  ],
  ['list_records', { ip: '10.0.0.7', reason: 'default_deny' }, { caller_ip: '10.0.0.7', reason_code: 'default_deny' }],
  ['get_billing_summary', { period: 'last week' }, { from: '2026-11-16', to: '2026-11-22' }],
  ['get_billing_summary', { from: 'last month' }, { from: '2026-10-01', to: '2026-10-31' }],
  ['get_billing_summary', { from: '2026-11' }, { from: '2026-11-01', to: '2026-11-30' }],
  ['get_billing_summary', { month: '2024-02' }, { from: '2024-02-01', to: '2024-02-29' }],
  ['get_billing_summary', { from: '2026-11-20' }, { from: '2026-11-20', to: '2026-11-26' }],
  ['get_billing_summary', { days: 7 }, { from: '2026-11-20', to: '2026-11-26' }],
  ['get_billing_summary', { range: '7d', timezone: 'UTC' }, { from: '2026-11-20', to: '2026-11-26', tz: 'UTC' }],
  ['get_attribution_summary', { since: 'this week' }, { from: '2026-11-23' }],
  ['get_spend', { period: 'day' }, { window: '24h' }],
  ['get_spend', { window: '1D' }, { window: '24h' }],
  [
    'create_budget_limit',
    { project: 'apollo', limit: '$50', period: 'Month', actions: 'block' },
    { scope: 'project', scope_id: 'apollo', limit_usd: '50', period: 'monthly', actions: ['cap'] },
  ],
  [
    'create_budget_limit',
    { scope: 'organization', amount: 1000.5, action: ['alert', 'cap'] },
    { scope: 'org', limit_usd: '1000.5', actions: ['alert', 'cap'] },
  ],
  [
    'create_budget_limit',
    { scope: 'projects', project: 'apollo', limit: '$10', period: 'week' },
    { scope: 'project', scope_id: 'apollo', limit_usd: '10', period: 'weekly' },
  ],
  ['list_budget_limits', { scope: 'service', workload_id: 'ci' }, { scope: 'workload', scope_id: 'ci' }],
  ['get_cost_report', { labels: { team: 'red' }, group_by: 'models' }, { label: 'team=red', by: 'model' }],
  ['list_records', { cost_doubt: 'unpriced' }, { cost_doubt: 'default_rate' }],
  ['list_records', { cost_doubt: 'without usage' }, { cost_doubt: 'no_usage' }],
  ['create_budget_limit', { workload_id: 'ci', amount_usd: '1,000.00' }, { scope: 'workload', scope_id: 'ci', limit_usd: '1000.00' }],
  [
    'set_budget_override',
    { id: 'l', amount: 50, expires: 'friday' },
    { limit_id: 'l', limit_usd: '50', until: '2026-11-28T00:00:00.000Z' },
  ],
  [
    'set_budget_override',
    { limit_id: 'l', limit_usd: '50', until: '2026-11-30' },
    { limit_id: 'l', limit_usd: '50', until: '2026-12-01T00:00:00.000Z' },
  ],
  [
    'set_budget_override',
    { limit_id: 'l', limit_usd: '50', until: 'thursday' },
    { limit_id: 'l', limit_usd: '50', until: '2026-12-04T00:00:00.000Z' },
  ],
  [
    'set_budget_override',
    { limit_id: 'l', limit_usd: '50', until: 'in 2 days' },
    { limit_id: 'l', limit_usd: '50', until: '2026-11-28T10:30:00.000Z' },
  ],
  [
    'set_budget_override',
    { limit_id: 'l', limit_usd: '50', until: 'end of month' },
    { limit_id: 'l', limit_usd: '50', until: '2026-12-01T00:00:00.000Z' },
  ],
  ['set_workload_ratelimit', { workload: 'ci', rpm: '10' }, { workload_id: 'ci', requests_per_minute: 10 }],
  ['set_workload_ratelimit', { id: 'ci', limit: 10 }, { workload_id: 'ci', requests_per_minute: 10 }],
  ['update_ratelimit_config', { rate: 10, burst: 10, window: '1m' }, { refill_rate: 10, max_tokens: 10, window_duration: '1m' }],
  [
    'set_provider_mode',
    { provider: 'mistral', mode: 'routing', enabled: false },
    { provider: 'mistral', mode: 'routing', state: 'disable' },
  ],
  ['set_provider_mode', { provider: 'mistral', mode: 'routing', state: 'OFF' }, { provider: 'mistral', mode: 'routing', state: 'disable' }],
  ['update_policy', { yaml: 'x' }, { bundle_yaml: 'x' }],
  [
    'create_alert_channel',
    { name: 'team', type: 'Slack', config: '{"webhook_url":"https://a.example/x"}' },
    { name: 'team', kind: 'slack', config: { webhook_url: 'https://a.example/x' } },
  ],
  ['get_attribution_label', { label: 'team', from: '2026-11-01' }, { label_key: 'team', from: '2026-11-01' }],
];

t.test('what a model guesses is what the operation reads', (t) => {
  for (const [tool, guess, own] of GUESSES) t.strictSame(asked(tool, guess), asked(tool, own), `${tool} ${JSON.stringify(guess)}`);
  t.end();
});

t.test('what counts by its own name is never taken for another', (t) => {
  t.match(asked('list_records', { project: 'p', limit: 5 }), { path: '/mgmt/v1/records?project=p&limit=5' });
  t.match(asked('set_org_defaults', { project_id: null }), { body: { project_id: null } }, 'null says something here');
  t.match(asked('list_records', { from: '2026-11-22T05:00:00+02:00' }), { path: /from=2026-11-22T05%3A00%3A00%2B02%3A00/ });
  t.end();
});

t.test('what stands for nothing is said, with what would have been right', (t) => {
  const wrong: readonly (readonly [tool: string, args: Args, details: readonly (readonly [path: string, message: RegExp])[]])[] = [
    [
      'list_approvals',
      { statos: 'pending' },
      [['statos', /^is no argument of this tool; did you mean `status`\? It takes approval_id, workload_id, status, limit, cursor$/]],
    ],
    ['list_approvals', { colour: 'red' }, [['colour', /^is no argument of this tool; it takes approval_id/]]],
    [
      'list_approvals',
      { status: 'aproved' },
      [['status', /^must be one of pending, approved, denied, expired, withdrawn, not "aproved"; did you mean `approved`\?$/]],
    ],
    [
      'list_approvals',
      { status: 'purple', colour: 1 },
      [
        ['colour', /is no argument/],
        ['status', /must be one of/],
      ],
    ],
    ['list_records', { team: 'red' }, [['team', /^is no argument of this tool/]]],
    ['set_budget_override', { id: 'l', limit_usd: 5, until: 'forever' }, [['until', /^must be a time to come such as .*, friday, /]]],
    ['get_cost_report', { format: 'csv' }, [['format', /^must be one of json, not "csv"/]]],
    [
      'create_alert_channel',
      { name: 'ops', kind: 'slack', url: 'https://a', config: { webhook_url: 'https://b' } },
      [['config.webhook_url', /^says the same as `config`, which is given too$/]],
    ],
    ['list_records', { from: 'today', since: 'yesterday' }, [['since', /^says the same as `from`, which is given too$/]]],
    ['list_records', { from: 'a while ago' }, [['from', /a day, a month such as 2026-11, or words such as today/]]],
    ['list_audit', { since: 'once' }, [['from', /such as 2026-11-22T05:00:00Z/]]],
    ['reload_policy', { force: true }, [['force', /^is no argument of this tool, which takes none$/]]],
    ['list_keys', { name: 'x' }, [['name', /^is no argument of this tool, which takes none$/]]],
    [
      'create_budget_limit',
      { scope: 'planet', limit_usd: '1' },
      [['scope', /must be one of org, project, workload, provider, not "planet"/]],
    ],
    [
      'create_budget_limit',
      { scope: 'org', limit_usd: '1', actions: ['explode'] },
      [['actions', /must be one of alert, cap, not "explode"/]],
    ],
  ];
  for (const [tool, args, details] of wrong) {
    try {
      TOOLS.requestOf(tool, args, () => NOW);
      t.fail(`${tool} ${JSON.stringify(args)} was taken`);
    } catch (error) {
      const found = (error as GatewayError).details ?? [];
      t.equal((error as GatewayError).code, 'invalid_request');
      for (const [path, message] of details)
        t.ok(
          found.some((one) => one.path === path && message.test(one.message)),
          `${tool}: ${path}: ${JSON.stringify(found)}`,
        );
    }
  }
  t.end();
});
