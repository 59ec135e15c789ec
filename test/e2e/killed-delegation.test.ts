// A process that is killed while calls under a delegation token are under way: what was set aside is charged to the
// token, once, and it can spend no more (decision 9.4).
import t from 'tap';
import { Issuer, lasting } from '../decide/delegation/delegation-tokens.ts';
import { startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

/** 2,000 tokens of gpt-4o's output cost 0.03 USD. */
const PARAMS = { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 2000 };
const HOST = 'api.openai.com';

// Holds: delegation-narrows
t.test('a call under a token that was under way when the process died is charged to every link with a budget, once', async (t) => {
  const issuer = new Issuer('ci');
  let arrived: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  let answers = false;
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response) => {
      arrived();
      if (answers) response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":0,"completion_tokens":2000}}');
    },
  });
  t.teardown(() => upstream.close());
  const root = issuer.signed(lasting({ budget: { usd_max: '0.09' } }));
  const leaf = (id: string) => issuer.text(lasting({ delegation_id: id, parent: root, budget: { usd_max: '0.06' } }));
  const env = { ...towards(t, upstream, [HOST]), GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` };
  const execute = async (port: number, token: string): Promise<string> => {
    const action = { type: 'ai.infer', method: 'POST', target_host: HOST, params: PARAMS };
    const envelope = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k' };
    const body = JSON.stringify({ ...envelope, delegation_token: token, action });
    const answer = await fetch(`http://127.0.0.1:${port}/v1/actions:execute`, { method: 'POST', body });
    const { reason_codes: codes = [] } = (await answer.json()) as { reason_codes?: string[] };
    return `${answer.status} ${codes.join()}`;
  };
  const first = await startGatewayProcess(t, { bundle: ALLOW_ALL, env });
  const call = execute(first.port, leaf('a')).catch(() => 'broken off');
  await reached;
  first.child.kill('SIGKILL');
  await first.child.ended;
  t.equal(await call, 'broken off');

  answers = true;
  const second = await startGatewayWith(t, first.env);
  t.equal(await execute(second.port, leaf('a')), '200 ', '0.03 of 0.06 were left to the leaf');
  t.equal(await execute(second.port, leaf('a')), '403 delegation_budget_exceeded');
  t.equal(await execute(second.port, leaf('b')), '200 ', '0.03 of 0.09 were left to the root');
  t.equal(await execute(second.port, leaf('b')), '403 delegation_budget_exceeded');
  second.child.kill('SIGKILL');
  await second.child.ended;
  const third = await startGatewayWith(t, first.env);
  t.equal(await execute(third.port, leaf('c')), '403 delegation_budget_exceeded', 'all is spent, and nothing twice');
});
