// A process that is killed: what it was asked to change and said was changed is so, and whom a call puts into
// quarantine is held exactly when that call has its record.
import t from 'tap';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { type GatewayProcess, gatewayEnvironment, launchGateway, startGatewayWith } from '../support/gateway-process.ts';
import { bundleOf } from '../support/governed.ts';
import { killedAtWrite } from '../support/killed-at-write.ts';

const CALLER = 'the-one';
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: lock, when: {field: caller_id, exists: true}, effect: {decision: quarantine, reason: odd}}
`);
type Json = Record<string, unknown>;

async function kill(gw: GatewayProcess): Promise<void> {
  gw.child.kill('SIGKILL');
  await gw.child.ended;
}

async function admin(
  gw: Pick<GatewayProcess, 'url'>,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: Json }> {
  const answer = await fetch(gw.url + path, {
    method,
    headers: { 'GW-Admin-Token': ADMIN_TOKEN },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? {} : (JSON.parse(text) as Json) };
}

/** Calls as somebody, on the redirect door: the caller is refused by policy or because it is held, never forwarded. */
const callAs = (port: number, caller: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/proxy/openai/v1/models`, { headers: { 'x-gw-caller-id': caller } });

t.test('whom a call puts into quarantine is held after a kill exactly when its record is there', async (t) => {
  const env = gatewayEnvironment(t, { bundle: BUNDLE });
  const outcomes = new Set<string>();
  for (const when of ['before', 'after'] as const) {
    const caller = `${CALLER}-${when}`;
    const doomed = await launchGateway(t, env, { nodeOptions: ['--import', killedAtWrite(caller, 1, when)] });
    await t.rejects(callAs(doomed.port, caller), `${when} the write`);
    t.match(await doomed.child.ended, { signal: 'SIGKILL' });
    const next = await startGatewayWith(t, env);
    const { items } = (await admin(next, 'GET', '/v1/admin/quarantine?active=true')).body as {
      items: { caller_id: string; record_id: string }[];
    };
    const entry = items.find(({ caller_id: id }) => id === caller);
    if (entry) t.match((await admin(next, 'GET', `/v1/records/${entry.record_id}`)).body, { decision: 'quarantine', caller_id: caller });
    outcomes.add(`${when} ${entry ? 'held' : 'free'}`);
    await kill(next);
  }
  t.same([...outcomes], ['before free', 'after held']);
});

t.test('what was changed and acknowledged outlives a kill, each with its entry in the audit trail', async (t) => {
  const env = gatewayEnvironment(t, { bundle: BUNDLE, env: { GW_ORG_ID: 'acme' } });
  let gw = await startGatewayWith(t, env);
  const again = async (): Promise<void> => {
    await kill(gw);
    gw = await startGatewayWith(t, env);
  };
  const change = async (method: string, path: string, body?: object): Promise<Json> => {
    const answer = await admin(gw, method, path, body);
    t.ok(answer.status < 300, `${method} ${path}: ${answer.status}`);
    return answer.body;
  };
  const read = async (path: string): Promise<Json> => (await admin(gw, 'GET', path)).body;
  t.equal((await callAs(gw.port, CALLER)).status, 403);
  const { id } = await change('POST', '/v1/admin/api-keys', { name: 'k' });
  await change('DELETE', `/v1/admin/api-keys/${String(id)}`);
  await change('PUT', '/v1/admin/delegations/revoked', { delegation_id: 'd' });
  await change('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  await change('POST', '/v1/admin/workloads/ci/token');
  await change('POST', '/v1/admin/org/suspend', { reason: 'unpaid' });
  await again();
  t.match(await read('/v1/admin/api-keys'), { api_keys: [{ id, revoked_at: String }] });
  t.match(await read('/v1/admin/delegations/revoked'), { revoked: [{ delegation_id: 'd' }] });
  t.match(await read('/v1/admin/org'), { status: 'suspended', suspended_reason: 'unpaid' });
  t.match(await (await callAs(gw.port, CALLER)).json(), { error: 'org_suspended' });
  const [entry] = (await read('/v1/admin/quarantine?active=true'))['items'] as { quarantine_id: string }[];
  await change('POST', `/v1/admin/quarantine/${entry?.quarantine_id ?? ''}/release`, { released_by: 'olga' });
  await change('DELETE', '/v1/admin/delegations/revoked/d');
  await change('POST', '/v1/admin/org/reactivate');
  await again();
  t.match(await read('/v1/admin/org'), { status: 'active' });
  t.same((await read('/v1/admin/quarantine?active=true'))['items'], []);
  t.same(await read('/v1/admin/delegations/revoked'), { revoked: [] });
  const { items } = (await read('/v1/admin/audit')) as { items: { operation: string }[] };
  t.same(items.map(({ operation }) => operation).reverse(), [
    'api_keys.create',
    'api_keys.revoke',
    'delegations.revoked.put',
    'workloads.put',
    'workloads.issue_token',
    'org.suspend',
    'quarantine.release',
    'delegations.revoked.remove',
    'org.reactivate',
  ]);
});
