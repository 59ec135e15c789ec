import t from 'tap';
import { picoFromUsd } from '../../src/base/lib/money.ts';
import { exactly } from '../support/exactly.ts';
import { type GatewayProcess, startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

/** 2,000 tokens of gpt-4o's output cost 0.03 USD. */
const PARAMS = { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 2000 };

t.test('a call that was under way when the process died is charged at its reservation, once', async (t) => {
  let arrived: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const upstream = await startTlsUpstream({ hosts: ['api.openai.com'], handler: () => arrived() });
  t.teardown(() => upstream.close());
  const first = await startGatewayProcess(t, { env: { ...WHOLE_MONTH, ...towards(t, upstream, ['api.openai.com']) } });
  await first.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', actions: ['cap'] });
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: PARAMS };
  const body = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'k',
    attribution: { project_id: 'p' },
    action,
  };
  const call = fetch(`${first.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) }).then(
    () => 'answered',
    () => 'broken off',
  );
  await reached;
  t.match(await limit(first), { spent_usd: exactly('0'), reserved_usd: exactly('0.03') });
  await kill(first);
  t.equal(await call, 'broken off');
  const second = await startGatewayWith(t, first.env);
  t.match(await limit(second), { spent_usd: exactly('0.03'), reserved_usd: exactly('0') });
  await kill(second);
  t.match(await limit(await startGatewayWith(t, first.env)), { spent_usd: exactly('0.03') }, 'the intent is gone');
});

t.test('a stream that is followed is charged what it had grown to when the process died', async (t) => {
  const WORDS = 400;
  const word = 'data: {"choices":[{"delta":{"content":"word "}}]}\n\n';
  const upstream = await startTlsUpstream({
    hosts: ['api.openai.com'],
    // It heeds no maximum, and falls silent.
    handler: (_request, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(word.repeat(WORDS)),
  });
  t.teardown(() => upstream.close());
  const env = { ...WHOLE_MONTH, ...towards(t, upstream, ['api.openai.com']), GW_STREAM_STOP_AT_CAP: 'true' };
  const first = await startGatewayProcess(t, { env });
  await first.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', actions: ['cap'] });
  const call = await fetch(`${first.url}/proxy/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 10, stream: true }),
  });
  const reader = call.body?.getReader();
  for (let seen = 0; seen < word.length * WORDS; ) seen += (await reader?.read())?.value?.length ?? Number.POSITIVE_INFINITY;
  const { reserved_usd: reserved } = (await limit(first)) as { reserved_usd: string };
  const grown = picoFromUsd(reserved);
  t.ok(grown > 30n * picoFromUsd('0.00015'), `many times its estimate: ${reserved}`);
  await kill(first);
  const { spent_usd: spent } = (await limit(await startGatewayWith(t, first.env))) as { spent_usd: string };
  const charged = picoFromUsd(spent);
  t.ok(charged <= grown && charged + charged / 8n >= grown, `${spent} of ${reserved}`);
});

async function limit(gw: GatewayProcess): Promise<unknown> {
  return ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: unknown[] }).limits[0];
}

async function kill(gw: GatewayProcess): Promise<void> {
  gw.child.kill('SIGKILL');
  await gw.child.ended;
}
