// Clients that pin certificates, or were never told to trust our root, before a whole gateway (decision 3.10).
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { eventually } from '../support/child.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const run = promisify(execFile);

/** What a program on Node does with its proxy agent: CONNECT, then TLS, then the request. */
const NODE_CLIENT = `
const { request } = require('node:http');
const { connect } = require('node:tls');
request({ port: process.argv[1], method: 'CONNECT', path: process.argv[2] + ':443' }).on('connect', (answer, socket) => {
  const secure = connect({ socket, servername: process.argv[2] }, () => secure.write('GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'));
  secure.on('error', (error) => { console.error(error.code); process.exitCode = 1; });
}).end();`;

t.test(
  'a rejected certificate is counted and said by alert and by silence, and its host still is not bypassed',
  { skip: skipWithout(['curl']) },
  async (t) => {
    const upstream = await startTlsUpstream({ hosts: ['api.openai.com'] });
    t.teardown(() => upstream.close());
    const warnings: string[] = [];
    const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void warnings.push(line) } });
    const clock = fakeClock();
    const gw = await startTestGateway(t, {
      clock,
      log,
      env: { ...towards(t, upstream, ['api.openai.com']), GW_PROXY_BYPASS: 'api.mistral.ai' },
    });
    const counted = (signal: string, count: number) => async (): Promise<true | undefined> => {
      const { text } = await gw.admin('GET', '/metrics');
      // As long as a silent close waits to be judged.
      if (signal === 'silent_close') clock.advance(5_000);
      return text.includes(`gw_handshake_rejected_total{signal="${signal}"} ${count}\n`) || undefined;
    };
    const curl = ['-sS', '--proxy', gw.url, 'https://api.openai.com/v1/models'];
    await t.rejects(run(requirePeer('curl'), curl), /certificate/);
    await eventually('the alert to be counted', counted('alert', 1));
    for (const host of ['api.openai.com', 'api.anthropic.com'])
      await t.rejects(run(process.execPath, ['-e', NODE_CLIENT, String(gw.port), host]), /UNABLE_TO_VERIFY_LEAF_SIGNATURE/);
    await eventually('the silence to be counted', counted('silent_close', 2));
    t.match(
      warnings.map((line) => JSON.parse(line) as unknown),
      [
        { host: 'api.openai.com', signal: 'alert', alerts: 1, silent_closes: 0, msg: /GW_PROXY_BYPASS/ },
        { host: 'api.anthropic.com', signal: 'silent_close', alerts: 0, silent_closes: 1 },
      ],
    );
    t.equal(warnings.length, 2, 'once per host and hour');
    await t.rejects(run(requirePeer('curl'), curl), /certificate/, 'what was learned passes nothing on');
    const trusting = await run(requirePeer('curl'), ['--cacert', gw.caFile, ...curl]);
    t.match(trusting.stdout, '{"ok":true}');
    await eventually('the second alert to be counted', counted('alert', 2));
  },
);
