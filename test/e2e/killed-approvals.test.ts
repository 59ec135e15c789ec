// A process that is killed around each write of a call that was approved: the approval is spent or not, never twice,
// and one that is spent has its record (decision 9.1).
import t from 'tap';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { gatewayEnvironment, launchGateway, startGatewayWith } from '../support/gateway-process.ts';
import { bundleOf, CHAT } from '../support/governed.ts';
import { killedAtWrite } from '../support/killed-at-write.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const HOST = 'api.openai.com';
const CALLER = 'the-one';
const BUNDLE = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: ask first}}\n');

/** Intent, approval, record. */
const MOMENTS = [1, 2, 3].flatMap((at) => [
  { at, when: 'before' as const },
  { at, when: 'after' as const },
]);

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

async function execute(port: number, seed: number): Promise<Answer> {
  const action = { type: 'ai.infer', method: 'POST', target_host: HOST, params: { ...CHAT, seed } };
  const body = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    caller_id: CALLER,
    credential_hint: 'k',
    action,
  };
  const response = await fetch(`http://127.0.0.1:${port}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

// Holds: approved-once
t.test('killed at any moment an approval is spent or not, never twice, and a spent one has its record', async (t) => {
  const executed = new Map<number, number>();
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response, body) =>
      void body.then((bytes) => {
        const { seed } = JSON.parse(bytes.toString()) as { seed: number };
        executed.set(seed, (executed.get(seed) ?? 0) + 1);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      }),
  });
  t.teardown(() => upstream.close());
  const env = gatewayEnvironment(t, { bundle: BUNDLE, env: towards(t, upstream, [HOST]) });
  const first = await startGatewayWith(t, env);
  const approvals: string[] = [];
  for (const seed of MOMENTS.keys()) {
    const { body } = await execute(first.port, seed);
    approvals.push(String(body['approval_id']));
    await first.admin('POST', `/v1/admin/approvals/${approvals[seed]}/approve`);
  }
  first.child.kill('SIGKILL');
  await first.child.ended;

  for (const [seed, { at, when }] of MOMENTS.entries()) {
    const doomed = await launchGateway(t, env, { nodeOptions: ['--import', killedAtWrite(CALLER, at, when)] });
    await t.rejects(execute(doomed.port, seed), `${when} write ${at}: nobody is answered`);
    t.match(await doomed.child.ended, { signal: 'SIGKILL' });
  }

  const last = await startGatewayWith(t, env);
  const read = async (path: string): Promise<Answer> => {
    const response = await fetch(last.url + path, { headers: { 'GW-Admin-Token': ADMIN_TOKEN } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  let spent = 0;
  for (const [seed, id] of approvals.entries()) {
    const moment = `${MOMENTS[seed]?.when} write ${MOMENTS[seed]?.at}`;
    const { executed_at: at, executed_record_id: recordId } = (await read(`/v1/admin/approvals/${id}`)).body;
    const before = executed.get(seed) ?? 0;
    if (at === undefined) t.equal(before, 0, `${moment}: not spent, and nothing was executed`);
    else t.match((await read(`/v1/records/${String(recordId)}`)).body, { approval_id: id }, `${moment}: spent, and its record is there`);
    spent += at === undefined ? 0 : 1;
    const again = await execute(last.port, seed);
    t.equal(again.status, at === undefined ? 200 : 202, `${moment}: ${at === undefined ? 'it can be used' : 'it is asked for anew'}`);
    t.ok((executed.get(seed) ?? 0) <= 1, `${moment}: once`);
  }
  t.ok(spent > 0 && spent < MOMENTS.length, 'some moments lie before the approval is spent, and some behind');
});
