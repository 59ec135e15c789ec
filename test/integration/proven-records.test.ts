// From a call to a proof that anybody can check: a whole gateway beside a whole control plane.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { MerkleRoot } from '../../src/ledger/merkle-root.ts';
import { backgroundUpstream } from '../support/background-upstream.ts';
import { eventually } from '../support/child.ts';
import { type RunningControlPlane, runControlPlane } from '../support/control-plane.ts';
import { CuttableLink } from '../support/cuttable-link.ts';
import type { TestGateway } from '../support/gateway.ts';
import { bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { isVerified } from '../support/is-verified.ts';
import { askPublicly, LedgerJudge, verifiedProof } from '../support/ledger-judge.ts';
import { managedOf } from '../support/managed.ts';
import { tempDir } from '../support/temp-dir.ts';

const BUNDLE = bundleOf(`  targets:
    - id: large
      priority: 9
      when: {field: context.action.params.model, equals: gpt-4}
      effect: {decision: deny}
    - {id: all, effect: {decision: allow}}
`);
const BACKGROUND = { model: 'gpt-4o-2024-05-13', input: '', max_output_tokens: 1000, background: true };

/** An org with a bundle. */
async function ledger(t: Test): Promise<RunningControlPlane> {
  const running = await runControlPlane(t);
  const { state } = running.plane;
  await state.orgs.put('acme', {}, running.commit);
  const put = await fetch(`http://127.0.0.1:${running.plane.httpPort}/v1/orgs/acme/bundle`, {
    method: 'PUT',
    headers: { 'CP-Admin-Token': running.plane.adminToken.value, 'content-type': 'application/json' },
    body: JSON.stringify({ bundle_yaml: BUNDLE }),
  });
  if (put.status !== 200) throw new Error(await put.text());
  return running;
}

/** Settings of a gateway of that org, at this address. */
async function linked(t: Test, { plane, commit }: RunningControlPlane, address = `127.0.0.1:${plane.grpcPort}`) {
  const { token } = await plane.state.tokens.issue('acme', 3_600, commit);
  return {
    GW_CP_ADDR: address,
    GW_ORG_ID: 'acme',
    GW_NODE_ID: 'node-1',
    GW_BOOTSTRAP_TOKEN: token,
    GW_KEY_DIR: join(tempDir(t), 'keys'),
  };
}

async function judgeOf({ plane }: RunningControlPlane): Promise<LedgerJudge> {
  return LedgerJudge.read(askPublicly(`http://127.0.0.1:${plane.httpPort}`), 'acme');
}

/** Every record of the gateway's own org, the newest first. */
async function recordsOf(gw: TestGateway): Promise<readonly Record<string, unknown>[]> {
  const managed = await managedOf(gw);
  const { body } = await managed.manage('GET', 'records?limit=200');
  const { data } = body as { data: { record_id: string }[] };
  return Promise.all(data.map(({ record_id: id }) => gw.record(id)));
}

async function pendingOf(gw: TestGateway): Promise<number> {
  const { text } = await gw.admin('GET', '/metrics');
  return Number(/^gw_pending_hash_submissions (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
}

async function healthOf(gw: TestGateway): Promise<Record<string, unknown>> {
  return (await gw.admin('GET', '/healthz')).body as Record<string, unknown>;
}

async function call({ execute }: Governed, org = 'acme', model = 'gpt-4o-mini'): Promise<number> {
  return (await execute({ org_id: org }, { params: { model, messages: [{ role: 'user', content: 'hello' }] } })).status;
}

t.test('allowed, denied and failed calls, calls in the name of another org and what comes late: all end verified', async (t) => {
  const running = await ledger(t);
  const provider = backgroundUpstream();
  const governed = await startGoverned(t, { env: await linked(t, running), handler: provider.handler });
  const { gw, send, recordOf } = governed;
  const post = (body: unknown) => send(chat([], '/proxy/openai/v1/responses', body));
  const later = await recordOf(await post(BACKGROUND));
  t.equal(await call(governed, 'acme', 'gpt-4'), 403);
  const elsewhere = await governed.execute({ org_id: 'elsewhere' });
  t.equal(elsewhere.status, 403, 'this gateway is of one org');
  const failed = await send({ method: 'GET', path: '/proxy/openai/v1/responses/resp_nobody', headers: ['Authorization', 'Bearer k'] });
  t.equal(failed.status, 404);
  const [id = ''] = provider.ids;
  provider.finish(id, { in: 40, out: 100 });
  await send({ method: 'GET', path: `/proxy/openai/v1/responses/${id}`, headers: ['Authorization', 'Bearer k'] });
  const late = await gw.record(String(later['usage_record_id']));
  t.type(late['record_hash'], 'string', 'a record that came behind its call');

  const strange = await gw.record(String(elsewhere.body['record_id']));
  t.match(strange, { org_id: 'elsewhere', decision: 'deny' });
  const records = [...(await recordsOf(gw)), strange];
  t.ok(records.length >= 5, `${records.length} records`);
  t.ok(records.some(({ record_id: one }) => one === late['record_id']));
  t.same([...new Set(records.map(({ decision }) => decision))].sort(), ['allow', 'deny']);
  const proofs: unknown[] = [];
  for (const record of records) proofs.push(await verifiedProof((path) => gw.admin('GET', path), String(record['record_hash'])));
  const judge = await judgeOf(running);
  for (const [at, record] of records.entries()) {
    t.ok(isVerified(record));
    const { root } = judge.check(proofs[at], String(record['record_hash']));
    t.equal(root.org_id, 'acme', 'in the ledger of the org of the gateway, whatever org the call named');
  }
  t.equal(judge.leaves, records.length, 'each is in it once');
  t.equal(await pendingOf(gw), 0);
  t.match(await healthOf(gw), { cp_status: 'connected', last_hash_submit_at: /^\d{4}-\d\d-\d\dT/ });

  const hash = String(late['record_hash']);
  const asked = await gw.admin('GET', `/v1/verify/${hash}`);
  const { plain: key } = await running.plane.state.apiKeys.create('acme', { name: 'reader' }, running.commit);
  const byKey = await fetch(`${gw.url}/v1/verify/${hash.toUpperCase()}`, { headers: { authorization: `Bearer ${key}` } });
  t.same(await byKey.json(), asked.body, 'an API key of the org sees the same, and so does who writes the hash in capitals');
  const notTheirs = await fetch(`${gw.url}/v1/verify/${String(strange['record_hash'])}`, { headers: { authorization: `Bearer ${key}` } });
  t.equal(notTheirs.status, 404, 'and nothing of another org');
});

t.test('a gateway that gets a control plane later proves everything from its first record on', async (t) => {
  const before = await startGoverned(t, { bundle: BUNDLE, env: { GW_ORG_ID: 'acme' } });
  for (let at = 0; at < 5; at++) t.equal(await call(before), 200);
  const records = await recordsOf(before.gw);
  t.equal(records.length, 5);
  for (const { record_hash: hash } of records)
    t.match(await before.gw.admin('GET', `/v1/verify/${String(hash)}`), {
      status: 200,
      body: { status: 'pending_inclusion', record_hash: hash },
    });
  t.equal(await pendingOf(before.gw), 0, 'nothing waits for whom there is not');
  t.notOk('last_hash_submit_at' in (await healthOf(before.gw)));
  await before.gw.gateway.stop();

  const running = await ledger(t);
  const { gw } = await startGoverned(t, { env: { ...(await linked(t, running)), GW_DATA_DIR: before.gw.dataDir } });
  const places: { sequence: number; leaf: number }[] = [];
  for (const { record_hash: hash } of [...records].reverse()) {
    const proof = await verifiedProof((path) => gw.admin('GET', path), String(hash));
    const { leaf_index: leaf, root } = proof as { leaf_index: number; root: MerkleRoot };
    places.push({ leaf, sequence: root.sequence });
  }
  t.same(
    places,
    [...places].sort((one, other) => one.sequence - other.sequence || one.leaf - other.leaf),
    'the oldest went first',
  );
  t.equal((await judgeOf(running)).leaves, 5);
});

t.test('offline hashes wait and are counted, what was checked is still answered, and all of them go when there is contact', async (t) => {
  const running = await ledger(t);
  const link = await CuttableLink.start(t, running.plane.grpcPort);
  const governed = await startGoverned(t, { env: await linked(t, running, link.address) });
  const { gw } = governed;
  const ask = (path: string) => gw.admin('GET', path);
  t.equal(await call(governed), 200);
  const [checked = ''] = (await recordsOf(gw)).map(({ record_hash: hash }) => String(hash));
  const proof = await verifiedProof(ask, checked);
  const { last_hash_submit_at: before } = await healthOf(gw);
  t.equal(await call(governed), 200);
  await eventually('the acknowledgement', async () => ((await healthOf(gw))['last_hash_submit_at'] === before ? undefined : true));
  // Taken by the control plane, and never asked for.
  const [unchecked = ''] = (await recordsOf(gw)).map(({ record_hash: hash }) => String(hash));
  link.cut();
  t.equal(await call(governed), 200);
  t.equal(await call(governed), 200);
  await eventually('what waits', async () => ((await pendingOf(gw)) === 2 ? true : undefined));
  t.same((await ask(`/v1/verify/${checked}`)).body, { status: 'verified', record_hash: checked, inclusion_proof: proof });
  t.match(await ask(`/v1/verify/${unchecked}`), { status: 503, body: { error: { code: 'control_plane_unreachable' } } });
  const waiting = (await recordsOf(gw))
    .map(({ record_hash: hash }) => String(hash))
    .filter((hash) => hash !== checked && hash !== unchecked);
  t.equal(waiting.length, 2);
  for (const hash of waiting)
    t.match(await ask(`/v1/verify/${hash}`), { status: 200, body: { status: 'pending_inclusion', inclusion_proof: undefined } });
  link.resume();
  for (const hash of [unchecked, ...waiting]) {
    const found = await eventually(`the proof of ${hash}`, async () => {
      const { body } = await ask(`/v1/verify/${hash}`);
      return (body as { inclusion_proof?: unknown }).inclusion_proof;
    });
    t.ok((await judgeOf(running)).check(found, hash));
  }
  t.equal(await pendingOf(gw), 0);
});
