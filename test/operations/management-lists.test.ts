// The operations table against the lists of the specification ("Management API", "MCP server"): nothing is missing, and
// what is more is named here.
import t from 'tap';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';

/** Method(s), path, scopes in the order of the methods. */
const ROUTES: readonly (readonly [methods: string, path: string, scopes: string])[] = [
  ['GET', '/keys', 'r'],
  ['POST', '/keys', 'w'],
  ['DELETE', '/keys/{id}', 'w'],
  ['GET PUT', '/credentials', 'r w'],
  ['PATCH DELETE', '/credentials/{id}', 'w w'],
  ['GET', '/providers', 'r'],
  ['POST', '/providers/{provider}/routing/enable', 'w'],
  ['POST', '/providers/{provider}/routing/disable', 'w'],
  ['POST', '/providers/{provider}/byok/enable', 'w'],
  ['POST', '/providers/{provider}/byok/disable', 'w'],
  ['POST', '/providers/{provider}/oauth/enable', 'w'],
  ['POST', '/providers/{provider}/oauth/disable', 'w'],
  ['GET POST', '/connectors', 'r w'],
  ['GET PUT DELETE', '/connectors/{id}', 'r w w'],
  ['POST', '/connectors/{id}/enable', 'w'],
  ['POST', '/connectors/{id}/disable', 'w'],
  ['GET PUT', '/workloads', 'r w'],
  ['DELETE', '/workloads/{id}', 'w'],
  ['GET POST', '/projects', 'r w'],
  ['PUT DELETE', '/projects/{id}', 'w w'],
  ['GET', '/records', 'r'],
  ['GET', '/records/{hash}', 'r'],
  ['GET', '/spend', 'r'],
  ['GET', '/billing/summary', 'r'],
  ['GET PUT', '/policies', 'r w'],
  ['POST', '/policies/reload', 'w'],
  ['GET PUT', '/ratelimit/config', 'r w'],
  ['GET', '/ratelimit/keys', 'r'],
  ['GET', '/approvals', 'r'],
  ['GET', '/quarantine', 'r'],
  ['POST', '/approvals/{id}/approve', 'w'],
  ['POST', '/approvals/{id}/deny', 'w'],
  ['POST', '/quarantine/{id}/release', 'w'],
  ['GET', '/dashboard', 'r'],
  ['GET', '/dashboard/decisions', 'r'],
  ['GET', '/nodes', 'r'],
  ['GET', '/attribution/summary', 'r'],
  ['GET', '/attribution/labels', 'r'],
  ['GET', '/attribution/labels/{key}', 'r'],
  ['GET POST', '/export/destinations', 'r w'],
  ['PUT DELETE', '/export/destinations/{id}', 'w w'],
  ['POST', '/export/destinations/{id}/test', 'w'],
  ['GET', '/pricing', 'r'],
  ['GET PATCH', '/org/defaults', 'r w'],
  ['GET POST', '/alerts/channels', 'r w'],
  ['GET PUT DELETE', '/alerts/channels/{id}', 'r w w'],
  ['POST', '/alerts/channels/{id}/test', 'w'],
  ['GET POST', '/alerts/subscriptions', 'r w'],
  ['GET PUT DELETE', '/alerts/subscriptions/{id}', 'r w w'],
  ['GET', '/alerts/history', 'r'],
  ['GET POST', '/budgets/limits', 'r w'],
  ['DELETE', '/budgets/limits/{id}', 'w'],
  ['GET', '/budgets/config', 'r'],
];

/** What the specification's table does not have. */
const MORE_ROUTES: readonly string[] = [
  'GET /openapi.json',
  'POST /budgets/limits/{id}/override',
  'DELETE /budgets/limits/{id}/override',
  'GET /audit',
  'GET /overview',
  'GET /chat-users',
  'DELETE /chat-users/{id}',
  'POST /chat-users/{id}/bind',
  'GET /sessions',
  'DELETE /sessions/{id}',
  'GET /discovery/domains',
  'POST /workloads/{id}/token',
  'DELETE /workloads/{id}/token',
  'GET /records/{hash}/explain',
  'GET /ratelimit/workloads',
  'PUT /ratelimit/workloads/{id}',
  'DELETE /ratelimit/workloads/{id}',
  'GET /health',
  'GET /billing/report',
  'GET /policies/rules',
  'GET /policies/rules/{rule_id}',
  'PUT /policies/rules/{rule_id}',
  'DELETE /policies/rules/{rule_id}',
  'POST /policies/check',
  'POST /policies/test',
  'POST /stop',
  'POST /resume',
  'GET /stops',
];

const TOOL_NAMES: readonly string[] = `
  list_records get_record
  list_credentials create_credential update_credential delete_credential
  list_providers set_provider_mode list_custom_providers create_custom_provider update_custom_provider delete_custom_provider
  enable_custom_provider disable_custom_provider
  list_workloads create_workload update_workload delete_workload
  list_projects create_project update_project delete_project
  get_policy update_policy reload_policy
  get_ratelimit_config update_ratelimit_config list_ratelimit_keys
  list_approvals approve_request deny_request list_quarantine release_quarantine
  get_spend get_billing_summary get_dashboard list_dashboard_decisions list_nodes
  get_attribution_summary list_attribution_labels get_attribution_label
  list_export_destinations create_export_destination update_export_destination delete_export_destination test_export_destination
  list_provider_pricing
  list_alert_channels get_alert_channel create_alert_channel update_alert_channel delete_alert_channel test_alert_channel
  list_alert_subscriptions get_alert_subscription create_alert_subscription update_alert_subscription delete_alert_subscription list_alert_history
  list_budget_limits create_budget_limit delete_budget_limit get_org_budget_config
  get_org_defaults set_org_defaults
  list_keys
`
  .trim()
  .split(/\s+/);
const MORE_TOOLS: readonly string[] = [
  'set_budget_override',
  'delete_budget_override',
  'explain_record',
  'list_workload_ratelimits',
  'set_workload_ratelimit',
  'delete_workload_ratelimit',
  'get_health',
  'get_cost_report',
  'list_audit',
  'list_discovered_domains',
  'issue_workload_token',
  'remove_workload_token',
  'list_policy_rules',
  'get_policy_rule',
  'put_policy_rule',
  'delete_policy_rule',
  'check_policy',
  'test_policy',
];

const PREFIX = '/mgmt/v1';
/** One entry takes all six switches of a provider. */
const SWITCHES = ['routing', 'byok', 'oauth'].flatMap((mode) => ['enable', 'disable'].map((state) => `${mode}/${state}`));
const management = OPERATIONS.filter(({ path }) => path.startsWith(`${PREFIX}/`)).flatMap((row) =>
  row.path.endsWith('/{mode}/{state}') ? SWITCHES.map((words) => ({ ...row, path: row.path.replace('{mode}/{state}', words) })) : [row],
);
const named = management.map(({ method, path }) => `${method} ${path.slice(PREFIX.length)}`);

/** What waits for a person is for approvers too, beside who reads or writes (decision 10.1). */
function scopeOf(path: string, reads: boolean): string {
  if (/^\/(?:approvals|quarantine)/.test(path)) return reads ? 'review' : 'decide';
  return reads ? 'read' : 'write';
}

t.test('the management API has every route of the specification, with its scope, and no others than are named here', (t) => {
  const rows = ROUTES.flatMap(([methods, path, scopes]) =>
    methods.split(' ').map((method, at) => ({ route: `${method} ${path}`, scope: scopeOf(path, scopes.split(' ')[at] === 'r') })),
  );
  t.equal(rows.length, 73);
  const expected = [...rows.map(({ route }) => route), ...MORE_ROUTES];
  t.strictSame([...named].sort(), expected.sort(), 'what is more than the specification has stands in MORE_ROUTES');
  for (const { route, scope } of rows) {
    const row = management[named.indexOf(route)];
    t.equal(row?.scope, scope, route);
  }
  t.end();
});

t.test('MCP has every tool of the specification and no others, each with the scope of its operation', (t) => {
  t.equal(TOOL_NAMES.length, 66);
  t.equal(new Set(TOOL_NAMES).size, TOOL_NAMES.length);
  const expected = [...TOOL_NAMES, ...MORE_TOOLS];
  t.strictSame(TOOLS.tools.map(({ name }) => name).sort(), expected.sort(), 'what is more stands in MORE_TOOLS');
  for (const { name, scope, annotations } of TOOLS.tools) {
    const reads = ['read', 'review'].includes(scope);
    t.equal(reads, annotations.readOnlyHint, name);
    t.equal(reads, /^(?:list|get|explain|check)_|^test_policy$/.test(name), name);
  }
  t.end();
});
