// The dashboard and the alert rules that are shipped name nothing that the gateway does not show, and what is written
// about them is what they are (decision 12.4).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { METRICS, type MetricRow } from '../../src/surfaces/metrics/metric-table.ts';
import { runControlPlane } from '../support/control-plane.ts';
import { startTestGateway } from '../support/gateway.ts';
import { alertRules, dashboard, MONITORING, type Shipped, shippedExpressions } from '../support/monitoring-files.ts';
import { connectSecure, portCertificate } from '../support/port-tls.ts';
import { namesOfExpression } from '../support/promql-names.ts';
import { h1Request } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';

const ROWS = new Map<string, MetricRow>(Object.values(METRICS).map((row) => [row.name, row]));
/** Of the scrape. */
const EVERYWHERE = ['job', 'instance'];

/**
 * The labels of a series; undefined when the gateway has none of that name.
 * @param types of what `/metrics` shows, by name
 */
function labelsOf(series: string, types: ReadonlyMap<string, string>): readonly string[] | undefined {
  if (series === 'up') return EVERYWHERE;
  const histogram = series.replace(/_(?:bucket|count|sum)$/, '');
  const base = types.get(histogram) === 'histogram' ? histogram : series;
  const type = types.get(base);
  if (type === undefined || (type === 'histogram' && base === series)) return undefined;
  return [...EVERYWHERE, ...(ROWS.get(base)?.labels ?? []), ...(series.endsWith('_bucket') ? ['le'] : [])];
}

/** What an expression names that is not there. */
function missing({ expr, legend }: Shipped, types: ReadonlyMap<string, string>): string[] {
  const { metrics, grouped } = namesOfExpression(expr);
  const found: string[] = [];
  const all = new Set<string>();
  for (const { name, labels } of metrics) {
    const known = labelsOf(name, types);
    if (known === undefined) found.push(name);
    for (const label of known ?? []) all.add(label);
    found.push(...labels.filter((label) => known?.includes(label) === false).map((label) => `${name}{${label}}`));
  }
  found.push(...grouped.filter((label) => !all.has(label)).map((label) => `by (${label})`));
  const shown = grouped.length > 0 ? new Set(grouped) : all;
  found.push(...legend.filter((label) => !shown.has(label)).map((label) => `legend ${label}`));
  return found;
}

/**
 * Of a gateway that has everything which metrics tell of: some are there only with a certificate of its own, others
 * with a control plane.
 */
async function shownTypes(t: Parameters<typeof startTestGateway>[0]): Promise<ReadonlyMap<string, string>> {
  const { env: certificate, ca } = portCertificate(t);
  const { plane, commit } = await runControlPlane(t);
  await plane.state.orgs.put('acme', {}, commit);
  const { token } = await plane.state.tokens.issue('acme', 3_600, commit);
  const link = {
    GW_CP_ADDR: `localhost:${plane.grpcPort}`,
    GW_ORG_ID: 'acme',
    GW_BOOTSTRAP_TOKEN: token,
    GW_KEY_DIR: join(tempDir(t), 'keys'),
  };
  const gw = await startTestGateway(t, { env: { ...certificate, ...link } });
  const answer = await h1Request(await connectSecure(t, gw.port, ca.certPem), '127.0.0.1', { path: '/metrics' });
  const text = answer.body.toString();
  return new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
}

t.test('every metric and label that the dashboard and the rules name is shown by the gateway', async (t) => {
  const types = await shownTypes(t);
  const expressions = shippedExpressions();
  t.ok(expressions.length > 80);
  for (const shipped of expressions) t.same(missing(shipped, types), [], shipped.where);
  for (const [expr, what] of [
    ['gw_request_total', 'gw_request_total'],
    ['sum(rate(gw_requests_total{organisation="a"}[5m]))', 'gw_requests_total{organisation}'],
    ['sum by (orgs) (rate(gw_requests_total[5m]))', 'by (orgs)'],
    ['rate(gw_request_duration_ms[5m])', 'gw_request_duration_ms'],
    ['histogram_quantile(0.9, rate(gw_upstream_latency_bucket[5m]))', 'gw_upstream_latency_bucket'],
  ] as const)
    t.same(missing({ where: '', expr, legend: [] }, types), [what], 'a wrong name is found');
  t.same(missing({ where: '', expr: 'sum by (decision) (gw_requests_total)', legend: ['org_id'] }, types), ['legend org_id']);
});

t.test('a counter that alerts look at is there before it counts, since nothing rises from nothing', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_ORG_ID: 'acme' } });
  const { text } = await gw.admin('GET', '/metrics');
  for (const series of [
    'gw_unrecorded_requests_total{code="record_store_unavailable"}',
    'gw_unrecorded_requests_total{code="internal"}',
    'gw_policy_loads_total{bundle="active",trigger="watch",result="refused"}',
    'gw_handshake_rejected_total{signal="alert"}',
    'gw_auth_failures_total{reason="invalid_key",org_id="acme"}',
    'gw_budget_alerts_total{org_id="acme",level="exceeded"}',
    'gw_org_overage_enforced_total{org_id="acme"}',
    'gw_quarantine_total{org_id="acme"}',
    'gw_rate_limit_hits{org_id="acme"}',
    'gw_outbox_dropped_total{reason="age"}',
  ])
    t.ok(text.includes(`\n${series} 0\n`), series);
});

t.test('the guide lists the rows of the dashboard, in their order', (t) => {
  const guide = readFileSync(join(packageRoot(), 'docs/guides/monitoring.md'), 'utf8');
  const table = guide.slice(guide.indexOf('| Row | Shows |'), guide.indexOf('## Who is told'));
  const listed = [...table.matchAll(/^\| ([^|]+?) \|/gm)].map(([, name]) => name).slice(1);
  t.strictSame(
    listed,
    dashboard()
      .panels.filter(({ type }) => type === 'row')
      .map(({ title }) => title),
  );
  t.end();
});

t.test('the panels of the dashboard do not overlap, say what they show, and use no variable that it lacks', (t) => {
  const { panels, templating } = dashboard();
  const variables = new Set(templating.list.map(({ name }) => name));
  t.same([...variables], ['datasource', 'job', 'instance', 'org']);
  const taken = new Set<string>();
  for (const { title, type, description, gridPos, targets = [] } of panels) {
    if (type !== 'row') t.match(description, /\w.*\.$/, `${title} is described`);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        if (taken.has(`${x} ${y}`)) t.fail(`${title} overlaps`);
        taken.add(`${x} ${y}`);
      }
    }
    t.ok(gridPos.x + gridPos.w <= 24);
    for (const { expr } of targets)
      for (const [, name = ''] of expr.matchAll(/\$(\w+)/g)) t.ok(variables.has(name) || name.startsWith('__'), `${title}: ${name}`);
  }
  t.end();
});

t.test('each alert has a unit test of its name and a section to which its runbook leads', (t) => {
  const { tests } = parse(readFileSync(join(MONITORING, 'alert-rules.test.yaml'), 'utf8')) as { tests: { name: string }[] };
  const names = alertRules().map(({ alert }) => alert);
  t.same(
    tests.map(({ name }) => name),
    [...names, 'a gateway that is well'],
  );
  const guide = readFileSync(join(packageRoot(), 'docs', 'guides', 'monitoring.md'), 'utf8');
  for (const { alert, annotations, labels } of alertRules()) {
    t.equal(annotations.runbook, `docs/guides/monitoring.md#${alert.toLowerCase()}`);
    t.ok(guide.includes(`\n### ${alert}\n`), alert);
    t.ok(['warning', 'critical'].includes(labels.severity));
  }
  t.end();
});
