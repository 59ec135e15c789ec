// A process that is killed while WebSockets are metered (decisions 6.8 and 7.9).
import t from 'tap';
import { exactly } from '../support/exactly.ts';
import { startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { HOST, RESPONSES, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectThrough } from '../support/raw-clients.ts';
import { towards } from '../support/upstreams.ts';
import { closing, opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

/** Two thousand tokens of gpt-4o-2024-05-13 cost 0.03 USD. */
const create = (model: string, input = 'x') => ({ type: 'response.create', model, input, max_output_tokens: 2000 });

t.test('a process that is killed: no client has seen an end without a record, and what ran is charged at its reservation', async (t) => {
  const upstream = await startSocketUpstream(t, { hosts: [HOST], onSocket: openAiSocket });
  const gw = await startGatewayProcess(t, { bundle: ALLOW_ALL, env: { ...WHOLE_MONTH, ...towards(t, upstream, [HOST]) } });
  const caPem = (await gw.admin('GET', '/v1/proxy/ca.crt')).text;
  await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '100', actions: ['cap'] });
  const open = async () => {
    const socket = webSocketOn(t, await connectThrough(gw.port, `${HOST}:443`, caPem), HOST, RESPONSES);
    const client = talk(socket);
    await opened(socket);
    return client;
  };
  const hanging = await open();
  await hanging.say(create('gpt-4o-2024-05-13', 'hang'), 'response.created');
  let ends = 0;
  const talkers = await Promise.all(Array.from({ length: 8 }, open));
  const half = new Promise<void>((resolve) => {
    for (const { socket } of talkers) {
      const again = (): void => socket.send(JSON.stringify(create('gpt-4o-mini')));
      socket.on('message', (data: Buffer) => {
        if ((JSON.parse(data.toString()) as { type: string }).type !== 'response.completed') return;
        ends++;
        if (ends === 40) resolve();
        again();
      });
      again();
    }
  });
  await half;
  const closed = talkers.map(({ socket }) => closing(socket));
  gw.child.kill('SIGKILL');
  await gw.child.ended;
  await Promise.all(closed);
  const next = await startGatewayWith(t, gw.env);
  const { limits } = (await next.admin('GET', '/v1/admin/budgets/limits')).body as {
    limits: { spent_usd: string; reserved_usd: string }[];
  };
  const spent = Number(limits[0]?.spent_usd);
  // 32 × 0.15 + 4 × 0.075 + 87 × 0.60 USD per million for each end, and the reservation of the one that hung.
  t.ok(spent >= 0.03 + ends * 0.0000573, `${spent} USD are charged, ${ends} ends were seen`);
  t.ok(spent < 0.0301 + (ends + 8) * 0.0013, `${spent} USD are charged, ${ends} ends were seen`);
  t.match(limits, [{ reserved_usd: exactly('0') }]);
  t.match(next.child.stdout + next.child.stderr, /calls were under way when the gateway last ended/);
});
