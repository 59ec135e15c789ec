/*
 * An example of each operation of the management API, in an order in which they succeed on a gateway where `acme` had
 * some calls: one that was allowed, two that wait for a person, and one of a caller who is in quarantine. What they
 * answered is in example-answers.ts; a test asks them again.
 */

export interface OperationExample {
  readonly id: string;
  /** By name. `{operation#member.of.its.answer}` is what an example before it answered. */
  readonly args?: Readonly<Record<string, unknown>>;
}

/** Far enough away for an example. */
const TO_COME = '2099-01-01T00:00:00.000Z';
const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: acme
version: "1"
inline_rules:
  targets:
    - id: acme.no-pastebin
      when: {field: context.action.target_host, equals: pastebin.com}
      effect: {decision: deny, reason: not for company data}
`;

export const EXAMPLES: readonly OperationExample[] = [
  { id: 'mgmt.ratelimit.configure', args: { refill_rate: 60, max_tokens: 100, window_duration: '1m' } },
  { id: 'mgmt.ratelimit.config' },
  { id: 'mgmt.ratelimit.keys', args: { limit: 10 } },
  { id: 'mgmt.keys.create', args: { name: 'reader of the dashboards', kind: 'management', scopes: ['read'], expires_at: TO_COME } },
  { id: 'mgmt.keys.list', args: { limit: 10 } },
  {
    id: 'mgmt.workloads.put',
    args: {
      workload_id: 'support-bot',
      name: 'Support bot',
      allowed_connection_types: ['direct_api', 'sdk_redirect'],
      default_attribution: { project_id: 'support', labels: { team: 'red' } },
    },
  },
  { id: 'mgmt.workloads.list', args: { limit: 10 } },
  { id: 'mgmt.workload_limits.put', args: { id: 'support-bot', requests_per_minute: 10 } },
  { id: 'mgmt.workload_limits.list' },
  { id: 'mgmt.workload_limits.remove', args: { id: 'support-bot' } },
  {
    id: 'mgmt.credentials.put',
    args: { id: 'openai-main', provider: 'openai', mode: 'alias', secret: 'sk-EXAMPLE-secret-0123456789', name: 'Main account' },
  },
  { id: 'mgmt.credentials.list' },
  { id: 'mgmt.credentials.patch', args: { id: 'openai-main', name: 'Main account of the company' } },
  { id: 'mgmt.providers.list' },
  { id: 'mgmt.providers.switch', args: { provider: 'mistral', mode: 'routing', state: 'disable' } },
  {
    id: 'mgmt.connectors.create',
    args: { name: 'Own models', base_url: 'https://llm.example.com/v1', auth_mode: 'bearer', default_model: 'llama-3', enabled: true },
  },
  { id: 'mgmt.connectors.list' },
  { id: 'mgmt.connectors.get', args: { id: '{mgmt.connectors.create#id}' } },
  { id: 'mgmt.connectors.update', args: { id: '{mgmt.connectors.create#id}', default_model: 'llama-4' } },
  { id: 'mgmt.connectors.disable', args: { id: '{mgmt.connectors.create#id}' } },
  { id: 'mgmt.connectors.enable', args: { id: '{mgmt.connectors.create#id}' } },
  { id: 'mgmt.projects.create', args: { project_id: 'search', display_name: 'Search', description: 'Everything around search' } },
  { id: 'mgmt.projects.list', args: { status: 'active' } },
  { id: 'mgmt.projects.update', args: { id: 'search', status: 'archived' } },
  { id: 'mgmt.org_defaults.change', args: { project_id: 'support' } },
  { id: 'mgmt.org_defaults.read' },
  { id: 'mgmt.records.list', args: { decision: 'allow', model: 'gpt-4o', label_key: 'team', label_value: 'red', limit: 10 } },
  { id: 'mgmt.records.read', args: { hash: '{mgmt.records.list#data.0.record_hash}' } },
  { id: 'mgmt.records.explain', args: { hash: '{mgmt.records.list#data.0.record_id}' } },
  { id: 'mgmt.overview.read', args: { window: '1h', tz: 'Europe/Berlin' } },
  { id: 'mgmt.spend.read', args: { window: '6h' } },
  { id: 'mgmt.billing.summary', args: { tz: 'Europe/Berlin' } },
  { id: 'mgmt.billing.report', args: { by: 'project,label:team', period: 'this-month' } },
  { id: 'mgmt.dashboard.read', args: { tz: 'Europe/Berlin' } },
  { id: 'mgmt.dashboard.decisions' },
  { id: 'mgmt.attribution.summary' },
  { id: 'mgmt.attribution.labels' },
  { id: 'mgmt.attribution.label', args: { key: 'team' } },
  { id: 'mgmt.domains.list', args: { managed: true } },
  { id: 'mgmt.nodes.list' },
  { id: 'mgmt.health.read' },
  { id: 'mgmt.pricing.list', args: { provider: 'openai', model: 'gpt-4o', limit: 2 } },
  { id: 'mgmt.approvals.list', args: { status: 'pending' } },
  { id: 'mgmt.approvals.approve', args: { id: '{mgmt.approvals.list#data.0.approval_id}', decided_by: 'olga', reason: 'agreed on' } },
  { id: 'mgmt.approvals.deny', args: { id: '{mgmt.approvals.list#data.1.approval_id}', decided_by: 'olga', reason: 'not this quarter' } },
  { id: 'mgmt.chat_users.list' },
  { id: 'mgmt.chat_users.remove', args: { id: 'slack:T0ACME:U0OLGA' } },
  { id: 'mgmt.sessions.list' },
  { id: 'mgmt.sessions.revoke', args: { id: '{mgmt.sessions.list#data.0.id}' } },
  { id: 'mgmt.quarantine.list', args: { active: true } },
  {
    id: 'mgmt.stop',
    args: { scope: { provider: 'mistral' }, reason: 'a key has leaked, ask the platform team', until: TO_COME, confirm: 'stop' },
  },
  { id: 'mgmt.stops.list' },
  { id: 'mgmt.resume', args: { stop_id: '{mgmt.stop#stop_id}' } },
  { id: 'mgmt.quarantine.release', args: { id: '{mgmt.quarantine.list#data.0.quarantine_id}', released_by: 'olga' } },
  {
    id: 'mgmt.budgets.create',
    args: {
      scope: 'project',
      scope_id: 'support',
      limit_usd: '250.00',
      period: 'monthly',
      warning_threshold_pct: 80,
      actions: ['alert', 'cap'],
    },
  },
  { id: 'mgmt.budgets.list' },
  {
    id: 'mgmt.budgets.override',
    args: { id: '{mgmt.budgets.create#limit_id}', limit_usd: '400.00', until: TO_COME, reason: 'the launch' },
  },
  { id: 'mgmt.budgets.end_override', args: { id: '{mgmt.budgets.create#limit_id}' } },
  { id: 'mgmt.budgets.config' },
  {
    id: 'mgmt.alerts.channels.create',
    args: { name: 'To the team', kind: 'slack', config: { webhook_url: 'https://hooks.slack.com/services/T000/B000/EXAMPLE-secret' } },
  },
  { id: 'mgmt.alerts.channels.list' },
  { id: 'mgmt.alerts.channels.get', args: { id: '{mgmt.alerts.channels.create#channel_id}' } },
  { id: 'mgmt.alerts.channels.update', args: { id: '{mgmt.alerts.channels.create#channel_id}', name: 'To the team on duty' } },
  { id: 'mgmt.alerts.channels.test', args: { id: '{mgmt.alerts.channels.create#channel_id}' } },
  {
    id: 'mgmt.alerts.subscriptions.create',
    args: { limit_id: '{mgmt.budgets.create#limit_id}', channel_id: '{mgmt.alerts.channels.create#channel_id}' },
  },
  { id: 'mgmt.alerts.subscriptions.list', args: { channel_id: '{mgmt.alerts.channels.create#channel_id}' } },
  { id: 'mgmt.alerts.subscriptions.get', args: { id: '{mgmt.alerts.subscriptions.create#subscription_id}' } },
  { id: 'mgmt.alerts.subscriptions.update', args: { id: '{mgmt.alerts.subscriptions.create#subscription_id}', enabled: false } },
  { id: 'mgmt.alerts.history.list', args: { limit: 10 } },
  {
    id: 'mgmt.exports.create',
    args: {
      name: 'To the SIEM',
      kind: 'webhook',
      config: {
        url: 'https://hooks.slack.com/siem',
        token: 'EXAMPLE-token-secret-0123456789',
        secret: 'whsec_RVhBTVBMRS1zZWNyZXQtMDEyMzQ1Njc4OQ==',
      },
      event_types: ['execution', 'approval'],
    },
  },
  { id: 'mgmt.exports.list' },
  { id: 'mgmt.exports.update', args: { id: '{mgmt.exports.create#id}', name: 'To the new SIEM' } },
  { id: 'mgmt.exports.test', args: { id: '{mgmt.exports.create#id}' } },
  { id: 'mgmt.policies.put', args: { bundle_yaml: BUNDLE, level: 'org' } },
  { id: 'mgmt.policies.list' },
  {
    id: 'mgmt.policies.rules.put',
    args: {
      rule_id: 'acme.allow-gpt-4o',
      layer: 'budgets',
      rule: '{conditions: {context.attribution.project_id: search, context.action.params.model: gpt-4o}, effect: {decision: allow}}',
    },
  },
  { id: 'mgmt.policies.rules.list', args: { level: 'org' } },
  { id: 'mgmt.policies.rules.get', args: { rule_id: 'acme.allow-gpt-4o' } },
  { id: 'mgmt.policies.rules.remove', args: { rule_id: 'acme.allow-gpt-4o' } },
  { id: 'mgmt.policies.check', args: { bundle_yaml: BUNDLE, level: 'org' } },
  { id: 'mgmt.policies.test', args: { requests: ['{action.params.model: gpt-4o, attribution.project_id: search}'] } },
  { id: 'mgmt.policies.reload' },
  { id: 'mgmt.exports.remove', args: { id: '{mgmt.exports.create#id}' } },
  { id: 'mgmt.alerts.subscriptions.remove', args: { id: '{mgmt.alerts.subscriptions.create#subscription_id}' } },
  { id: 'mgmt.alerts.channels.remove', args: { id: '{mgmt.alerts.channels.create#channel_id}' } },
  { id: 'mgmt.budgets.remove', args: { id: '{mgmt.budgets.create#limit_id}' } },
  { id: 'mgmt.projects.remove', args: { id: 'search' } },
  { id: 'mgmt.connectors.remove', args: { id: '{mgmt.connectors.create#id}' } },
  { id: 'mgmt.credentials.remove', args: { id: 'openai-main' } },
  { id: 'mgmt.workloads.token', args: { id: 'support-bot' } },
  { id: 'mgmt.workloads.token.remove', args: { id: 'support-bot' } },
  { id: 'mgmt.workloads.remove', args: { id: 'support-bot' } },
  { id: 'mgmt.audit.list', args: { operation: 'workloads', limit: 5 } },
  { id: 'mgmt.keys.revoke', args: { id: '{mgmt.keys.create#id}' } },
];
