/*
 * The table of the gateway's admin API (specification, "Gateway admin API"), row by row: what is asked, and the status
 * and members that the row promises. Answers may have more; the recorded answers hold every byte of them.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { bundleOf, startGoverned } from '../support/governed.ts';
import { tempDir } from '../support/temp-dir.ts';
import { CONFIGURATION_ROWS } from './admin-configuration-rows.ts';
import { callOf, type Step } from './admin-table-step.ts';
import { TRAFFIC_ROWS } from './admin-traffic-rows.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: asks
      priority: 2
      when: {field: context.action.params.model, equals: gpt-4o}
      effect: {decision: require_approval, reason: large models are agreed on first}
    - id: locks
      when: {field: context.action.params.model, equals: gpt-4}
      effect: {decision: quarantine, reason: odd behaviour}
    - id: denies
      when: {field: context.action.params.model, equals: o1}
      effect: {decision: deny, reason: not here}
`);

/** Two more than a page of approvals has when nobody says how many. */
const WAITING = 22;

interface Scene {
  readonly gw: TestGateway;
  readonly bare: TestGateway;
  readonly apiKey: string;
  /** What steps call by a name. */
  readonly names: ReadonlyMap<string, string>;
}

async function scene(t: Test): Promise<Scene> {
  const credentials = join(tempDir(t), 'credentials');
  mkdirSync(credentials);
  const inFile = 'credential_id: in-file\norg_id: acme\nconnector_id: openai\nmode: alias\nsecret_ref: sk-in-file\n';
  writeFileSync(join(credentials, 'one.yaml'), inFile);
  const clock = fakeClock();
  const { gw, execute } = await startGoverned(t, {
    clock,
    bundle: BUNDLE,
    env: { GW_ORG_ID: 'acme', GW_NODE_ID: 'n-1', GW_CREDENTIALS_DIR: credentials },
  });
  const bare = await startTestGateway(t, {
    env: { GW_PROXY_MITM_ENABLED: 'false', GW_METRICS_ENABLED: 'false', GW_DISCOVERY_ENABLED: 'false' },
  });
  await gw.admin('DELETE', '/v1/admin/credentials/in-file');
  const made = (await gw.admin('POST', '/v1/admin/api-keys', { org_id: 'acme', name: 'reports' })).body as { key: string };
  const call = (model: string, caller: string) => execute({ ...callOf(model), caller_id: caller });
  const allowed = (await call('gpt-4o-mini', 'caller')).body;
  await call('o1', 'caller');
  const names = new Map([
    ['record', String(allowed['record_id'])],
    ['hash', String(allowed['record_hash'])],
  ]);
  for (let at = 0; at < WAITING; at++) {
    const opened = await execute({ ...callOf('gpt-4o', `u-${at}`), caller_id: 'asker' });
    t.equal(opened.status, 202, opened.text);
    names.set(at === 0 ? 'approval' : 'other approval', String(opened.body['approval_id']));
  }
  for (const caller of ['odd one', 'odd two']) await call('gpt-4', caller);
  const held = (await gw.admin('GET', '/v1/admin/quarantine')).body as { items: readonly { quarantine_id: string }[] };
  names.set('quarantine', held.items[0]?.quarantine_id ?? '');
  return { gw, bare, apiKey: made.key, names };
}

/** What a step shows. */
function tokenOf({ as }: Step, { apiKey }: Scene): Readonly<Record<string, string>> {
  if (as === 'nobody') return {};
  if (as === undefined) return { 'GW-Admin-Token': ADMIN_TOKEN };
  return { Authorization: `Bearer ${as === 'bearer' ? ADMIN_TOKEN : apiKey}` };
}

/** @param seen top members of answers before in the row */
async function take(t: Test, step: Step, scene: Scene, seen: Map<string, string>): Promise<void> {
  const path = step.ask.replace(/\{([\w ]+)\}/g, (_whole, name: string) => seen.get(name) ?? scene.names.get(name) ?? `(no ${name})`);
  const [method = '', target = ''] = path.split(' ');
  const { url } = step.at === 'bare' ? scene.bare : scene.gw;
  const answer = await fetch(url + target, {
    method,
    headers: { ...tokenOf(step, scene), ...(step.body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(step.body === undefined ? {} : { body: JSON.stringify(step.body) }),
  });
  const text = await answer.text();
  const json = answer.headers.get('content-type')?.startsWith('application/json') === true;
  const body: unknown = json ? JSON.parse(text) : text;
  t.equal(answer.status, step.status, `${path}: ${text.slice(0, 300)}`);
  if (step.has !== undefined) t.match(body, step.has, path);
  if (step.lacks !== undefined) t.notMatch(text, step.lacks, path);
  const members = new Map<string, unknown>(Object.entries(typeof body === 'object' && body !== null ? body : {}));
  for (const [name, count] of Object.entries(step.counts ?? {})) t.equal(lengthOf(members.get(name)), count, `${path}: ${name}`);
  for (const [name, value] of members) if (typeof value === 'string') seen.set(name, value);
}

function lengthOf(list: unknown): number | undefined {
  return Array.isArray(list) ? list.length : undefined;
}

t.test('each row of the table is as it is specified', async (t) => {
  const all = await scene(t);
  // Those that change who may call come last.
  for (const { row, steps } of [...TRAFFIC_ROWS, ...CONFIGURATION_ROWS]) {
    await t.test(row, async (t) => {
      const seen = new Map<string, string>();
      for (const step of steps) await take(t, step, all, seen);
    });
  }
});
