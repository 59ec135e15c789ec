// A process that is killed while it exports: every record that is stored arrives, and none has two ids (decision 11.3).
import t from 'tap';
import { gatewayEnvironment, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const HOST = 'api.openai.com';
const SIEM = 'siem.example.com';
const CALLS = 40;
type Json = Record<string, unknown>;

async function call(port: number, seed: number): Promise<string> {
  const action = { type: 'ai.infer', method: 'POST', target_host: HOST, params: { model: 'gpt-4o-mini', messages: [], seed } };
  const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k', action };
  const response = await fetch(`http://127.0.0.1:${port}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) });
  return String(((await response.json()) as Json)['record_id']);
}

t.test('a gateway that is killed while it exports loses no record', async (t) => {
  const inbox = new Inbox(() => ({ status: 204 }));
  const upstream = await startTlsUpstream({
    hosts: [HOST, SIEM],
    handler: inbox.handler(
      [SIEM],
      (_request, response, whole) =>
        void whole.then(() =>
          response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}'),
        ),
    ),
  });
  t.teardown(() => upstream.close());
  const env = gatewayEnvironment(t, {
    bundle: ALLOW_ALL,
    env: { ...towards(t, upstream, [HOST, SIEM]), GW_EXPORT_WEBHOOK_URL: `https://${SIEM}/in` },
  });
  const first = await startGatewayWith(t, env);
  const recorded: string[] = [];
  for (let seed = 0; seed < CALLS; seed += 1) {
    recorded.push(await call(first.port, seed));
    if (seed === CALLS / 2) await inbox.until(() => inbox.received.length > 0);
  }
  first.child.kill('SIGKILL');
  await first.child.ended;
  const last = await startGatewayWith(t, env);
  recorded.push(await call(last.port, CALLS));
  const idsOf = new Map<string, Set<unknown>>();
  const arrived = (): boolean => {
    for (const { body, headers } of inbox.received) {
      const id = String((body['payload'] as Json)['record_id']);
      idsOf.set(id, (idsOf.get(id) ?? new Set()).add(headers['webhook-id']));
    }
    return recorded.every((id) => idsOf.has(id));
  };
  await inbox.until(arrived);
  t.ok(
    [...idsOf.values()].every(({ size }) => size === 1),
    'what comes twice has the same id',
  );
  t.ok(inbox.received.length <= recorded.length + 100, 'the last batch alone comes twice');
  last.child.kill('SIGKILL');
  await last.child.ended;
});
