// A process that is killed while answers run that no cap holds: each record id that a client has seen leads to a record
// (decision 6.8).
import { type IncomingMessage, request } from 'node:http';
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL, CHAT } from '../support/governed.ts';
import { HOST, RESPONSES, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectThrough } from '../support/raw-clients.ts';
import { storedRecords } from '../support/stored-records.ts';
import { startTlsUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

const STREAMS = 20;
const LARGE = 'x'.repeat(100_000);

/** Answers that begin and never end: a stream, or what is too large to be held. */
const endless: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const stream = body.toString().includes('"stream":true');
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
    response.write(stream ? 'data: {"choices":[{"delta":{"content":"Once"}}]}\n\n' : `{"choices":"${LARGE}`);
  });

t.test('streams, large answers and calls without a price', async (t) => {
  const hosts = [HOST, 'www.example.com'];
  const upstream = await startTlsUpstream({ hosts, handler: endless });
  t.teardown(() => upstream.close());
  const gw = await startGatewayProcess(t, { bundle: ALLOW_ALL, env: towards(t, upstream, hosts) });
  const begun = (path: string, body: object, headers: Record<string, string> = {}) =>
    new Promise<string>((resolve, reject) => {
      const call = request(`${gw.url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers } });
      call.on('response', (answer: IncomingMessage) => {
        answer.on('error', () => undefined);
        answer.once('data', () => resolve(String(answer.headers['x-gw-record-id'])));
      });
      call.on('error', reject);
      call.end(JSON.stringify(body));
    });
  const asked = { ...CHAT, max_tokens: 200 };
  const direct = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'sk' };
  const action = { type: 'ai.infer', method: 'POST', target_host: HOST, params: { ...asked, stream: true } };
  const [streams, large, structured, unpriced] = await Promise.all([
    Promise.all(Array.from({ length: STREAMS }, () => begun('/proxy/openai/v1/chat/completions', { ...asked, stream: true }))),
    begun('/proxy/openai/v1/chat/completions', asked),
    begun('/v1/actions:execute', { ...direct, action }),
    begun('/upload', asked, { 'x-gw-target-host': 'www.example.com' }),
  ]);
  gw.child.kill('SIGKILL');
  await gw.child.ended;

  const next = await startGatewayWith(t, gw.env);
  const ended = { decision: 'error', reason_codes: ['gateway_restarted'], error: { code: 'gateway_restarted' }, upstream_status: 200 };
  const charged = { ...ended, metering: { tokens_out: 200, cost_usd: exactly('0.00012105'), usage_reported: false } };
  for (const id of [...streams, structured]) t.match(await next.record(id), { ...charged, stream: true, stream_outcome: 'aborted' });
  t.match(await next.record(large), { ...charged, stream: false });
  const free = await next.record(unpriced);
  t.match(free, { ...ended, action_type: 'http.request' });
  t.notOk('metering' in free, 'what has no price costs nothing');
  next.child.kill('SIGTERM');
  await next.child.ended;
  const stored = await storedRecords(String(gw.env['GW_DATA_DIR']));
  t.equal(stored.length, STREAMS + 3, 'each of them once');
});

t.test('a call on a WebSocket of which something was seen', async (t) => {
  const upstream = await startSocketUpstream(t, { hosts: [HOST], onSocket: openAiSocket });
  const gw = await startGatewayProcess(t, { bundle: ALLOW_ALL, env: towards(t, upstream, [HOST]) });
  const caPem = (await gw.admin('GET', '/v1/proxy/ca.crt')).text;
  const socket = webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, caPem), HOST, RESPONSES);
  const client = talk(socket);
  await opened(socket);
  await client.say({ type: 'response.create', model: CHAT.model, input: 'hang', max_output_tokens: 200 }, 'response.created');
  gw.child.kill('SIGKILL');
  await gw.child.ended;
  const next = await startGatewayWith(t, gw.env);
  next.child.kill('SIGTERM');
  await next.child.ended;
  const records = (await storedRecords(String(gw.env['GW_DATA_DIR']))).filter(({ record_tier: tier }) => tier === 'action');
  t.match(records, [
    { decision: 'error', reason_codes: ['gateway_restarted'], connection_type: 'connect_proxy', metering: { tokens_out: 200 } },
  ]);
  t.equal(records.length, 1);
});
