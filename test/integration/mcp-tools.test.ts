// An assistant at work: every tool is called by official clients, in the order in which things come about, and each
// answer held against what the operation says that it answers.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { managedOf } from '../support/managed.ts';

const SLACK = 'hooks.slack.com';
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: ask
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: a person decides}
    - id: lock
      when: {field: context.action.params.user, equals: bad}
      effect: {decision: quarantine, reason: odd behaviour}
`);

const OVERLAY = `schema: gw.policy_bundle.v1
bundle_id: org-overlay
version: '1'
inline_rules:
  budgets:
    - {id: small, when: {field: action.params.user, equals: nobody}, effect: {decision: deny}}
`;

type Json = Readonly<Record<string, unknown>>;
/** What tools have answered so far, the last answer of each. */
type Said = (tool: string) => Json;
type Step = readonly [tool: string, args?: Json | ((said: Said) => Json)];

const dataOf = (answer: Json) => answer['data'] as readonly Json[];
const idOf =
  (tool: string, member: string, as = member) =>
  (said: Said): Json => ({ [as]: said(tool)[member] });
const firstOf =
  (tool: string, member: string, as = member) =>
  (said: Said): Json => ({ [as]: dataOf(said(tool))[0]?.[member] });
const lastOf =
  (tool: string, member: string, as = member) =>
  (said: Said): Json => ({ [as]: dataOf(said(tool)).at(-1)?.[member] });

/** `p` keeps what one client makes apart from what the other does. */
function work(p: string): readonly Step[] {
  const webhook = { webhook_url: `https://${SLACK}/services/T0/B0/secret` };
  const label = { label_key: 'team' };
  return [
    ['list_keys'],
    ['create_workload', { workload_id: `${p}-ci`, name: 'CI' }],
    ['update_workload', { workload_id: `${p}-ci`, name: 'Continuous integration' }],
    ['list_workloads', { limit: 10 }],
    ['issue_workload_token', { workload_id: `${p}-ci` }],
    ['remove_workload_token', { workload_id: `${p}-ci` }],
    ['list_audit', { operation: 'workloads', limit: 5 }],
    ['list_discovered_domains', { show: 'all' }],
    ['get_cost_report', { by: 'project', period: 'this-month' }],
    ['get_cost_report', { by: 'model', project: `${p}-apollo`, label: 'team=red' }],
    ['create_project', { project_id: `${p}-apollo`, display_name: 'Apollo' }],
    ['update_project', { project_id: `${p}-apollo`, description: 'To the moon' }],
    ['list_projects', { status: 'active' }],
    ['set_org_defaults', { project_id: `${p}-apollo` }],
    ['get_org_defaults'],
    ['set_org_defaults', { project_id: null }],
    ['create_credential', { id: `${p}-main`, provider: 'openai', mode: 'alias', secret: 'sk-planted-0123456789', name: 'Main' }],
    ['update_credential', { credential_id: `${p}-main`, name: 'Production' }],
    ['list_credentials'],
    ['create_custom_provider', { name: `${p}-own`, base_url: `https://${p}.models.example/v1`, auth_mode: 'none' }],
    ['update_custom_provider', (said) => ({ connector_id: said('create_custom_provider')['id'], default_model: 'own-1' })],
    ['disable_custom_provider', idOf('create_custom_provider', 'id', 'connector_id')],
    ['enable_custom_provider', idOf('create_custom_provider', 'id', 'connector_id')],
    ['list_custom_providers'],
    ['list_providers'],
    ['set_provider_mode', { provider: 'mistral', mode: 'routing', state: 'disable' }],
    ['set_provider_mode', { provider: 'mistral', mode: 'routing', state: 'enable' }],
    ['get_policy'],
    ['update_policy', { bundle_yaml: OVERLAY }],
    [
      'put_policy_rule',
      { rule_id: `${p}.more`, layer: 'budgets', rule: '{when: {field: context.purpose, equals: q}, effect: {decision: deny}}' },
    ],
    ['list_policy_rules', { level: 'org' }],
    ['get_policy_rule', { rule_id: `${p}.more` }],
    ['check_policy', { bundle_yaml: OVERLAY }],
    ['test_policy', { requests: ['{action.params.model: gpt-4o}'] }],
    ['delete_policy_rule', { rule_id: `${p}.more` }],
    ['update_policy', { bundle_yaml: '', confirm: true }],
    ['reload_policy'],
    ['get_ratelimit_config'],
    ['update_ratelimit_config', { refill_rate: 1000, max_tokens: 1000, window_duration: '1m' }],
    ['list_ratelimit_keys'],
    ['set_workload_ratelimit', { workload_id: `${p}-ci`, requests_per_minute: 10 }],
    ['list_workload_ratelimits'],
    ['delete_workload_ratelimit', { workload_id: `${p}-ci` }],
    ['list_approvals', { status: 'pending' }],
    ['approve_request', firstOf('list_approvals', 'approval_id')],
    ['deny_request', lastOf('list_approvals', 'approval_id')],
    ['list_quarantine', { active: 'true' }],
    ['release_quarantine', firstOf('list_quarantine', 'quarantine_id')],
    ['list_records', { limit: 5 }],
    ['get_record', firstOf('list_records', 'record_hash')],
    ['explain_record', firstOf('list_records', 'record_id')],
    ['get_spend', { window: '24h' }],
    ['get_billing_summary'],
    ['get_dashboard'],
    ['list_dashboard_decisions'],
    ['get_attribution_summary'],
    ['list_attribution_labels'],
    ['get_attribution_label', label],
    ['list_nodes'],
    ['get_health'],
    ['list_provider_pricing', { provider: 'openai', limit: 3 }],
    ['create_budget_limit', { scope: 'project', scope_id: `${p}-apollo`, limit_usd: '10.00' }],
    ['list_budget_limits'],
    ['set_budget_override', (said) => ({ limit_id: said('create_budget_limit')['limit_id'], limit_usd: '50', until: '2099-01-01' })],
    ['delete_budget_override', idOf('create_budget_limit', 'limit_id')],
    ['get_org_budget_config'],
    ['create_alert_channel', { name: `${p} team`, kind: 'slack', config: webhook }],
    ['get_alert_channel', idOf('create_alert_channel', 'channel_id')],
    ['update_alert_channel', (said) => ({ channel_id: said('create_alert_channel')['channel_id'], name: `${p} operators` })],
    ['list_alert_channels'],
    ['test_alert_channel', idOf('create_alert_channel', 'channel_id')],
    [
      'create_alert_subscription',
      (said) => ({ channel_id: said('create_alert_channel')['channel_id'], limit_id: said('create_budget_limit')['limit_id'] }),
    ],
    ['get_alert_subscription', idOf('create_alert_subscription', 'subscription_id')],
    ['update_alert_subscription', (said) => ({ subscription_id: said('create_alert_subscription')['subscription_id'], enabled: false })],
    ['list_alert_subscriptions'],
    ['list_alert_history'],
    ['delete_alert_subscription', idOf('create_alert_subscription', 'subscription_id')],
    ['delete_alert_channel', idOf('create_alert_channel', 'channel_id')],
    ['create_export_destination', { name: `${p} siem`, kind: 'webhook', config: { url: `https://${SLACK}/siem` } }],
    ['update_export_destination', (said) => ({ destination_id: said('create_export_destination')['id'], event_types: ['audit'] })],
    ['test_export_destination', idOf('create_export_destination', 'id', 'destination_id')],
    ['list_export_destinations'],
    ['delete_export_destination', idOf('create_export_destination', 'id', 'destination_id')],
    ['delete_budget_limit', idOf('create_budget_limit', 'limit_id')],
    ['delete_custom_provider', idOf('create_custom_provider', 'id', 'connector_id')],
    ['delete_credential', { credential_id: `${p}-main` }],
    ['delete_project', { project_id: `${p}-apollo` }],
    ['delete_workload', { workload_id: `${p}-ci` }],
  ];
}

/** What the operations say that they answer; clients are not listed it. */
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const ANSWERS = new Map(TOOLS.tools.map(({ name, outputSchema }) => [name, ajv.compile(outputSchema ?? { type: 'object' })]));

t.test('every tool does its work for clients of both lines, and answers what its schema says', async (t) => {
  const inbox = new Inbox(({ host }) => (host === SLACK ? { status: 200, text: 'ok' } : undefined));
  const { gw, execute } = await startGoverned(t, {
    bundle: BUNDLE,
    hosts: [SLACK],
    handler: inbox.handler(
      [SLACK],
      (_request, response) => void response.setHeader('content-type', 'application/json').end('{"usage":{}}'),
    ),
  });
  const { keyOf } = await managedOf(gw);
  const { key } = await keyOf('default', ['read', 'write'], 'mcp');
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const url = new URL(`${gw.url}/mcp`);
  const old = new OldClient({ name: 'test', version: '1' });
  await old.connect(new OldTransport(url, { requestInit }));
  const modern = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await modern.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  for (const [p, client] of [
    ['old', old],
    ['new', modern],
  ] as const) {
    // What a tool is called with is not listed yet, and its answer not held against anything, before this.
    await client.listTools();
    // No two of the calls that wait are the same, so that what was decided about one decides about no other.
    for (const [at, user] of ['one', 'ask', 'ask', 'bad'].entries()) {
      await execute(
        { caller_id: `${p}-${user}-${at}` },
        { params: { ...CHAT, user, messages: [{ role: 'user', content: `${p} ${at}` }] } },
      );
    }
    const answers = new Map<string, Json>();
    const said: Said = (tool) => answers.get(tool) ?? {};
    for (const [name, given = {}] of work(p)) {
      const args = typeof given === 'function' ? given(said) : given;
      const { content, structuredContent, isError } = (await client.callTool({ name, arguments: args })) as {
        content: readonly { text: string }[];
        structuredContent?: Json;
        isError?: boolean;
      };
      t.notOk(isError, `${p}: ${name} ${JSON.stringify(args)}${isError ? `: ${content[0]?.text}` : ''}`);
      t.same(JSON.parse(content[0]?.text ?? ''), structuredContent, 'the text says the same');
      const fits = ANSWERS.get(name);
      t.ok(fits?.(structuredContent), `${name}: ${JSON.stringify(fits?.errors)}`);
      answers.set(name, structuredContent ?? {});
    }
    t.strictSame(
      [...answers.keys()].sort(),
      TOOLS.tools.map(({ name }) => name),
      'and no tool was left out',
    );
    await client.close();
  }
  t.notMatch(JSON.stringify(inbox.received), /sk-planted/);
});
