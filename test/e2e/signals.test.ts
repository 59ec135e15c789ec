// A signal that comes before all is there, and the one that a closed terminal sends.
import { createServer } from 'node:net';
import t from 'tap';
import { eventually, launch, run } from '../support/child.ts';
import { gatewayEnvironment, MAIN, startGatewayProcess } from '../support/gateway-process.ts';
import { canConnect } from '../support/raw-clients.ts';
import { listenOnFreePort } from '../support/tls-upstream.ts';

/** Sends the process a SIGTERM as soon as it listens for one. */
const EARLY_SIGNAL = `data:text/javascript,process.on('newListener', (name) => name === 'SIGTERM' && setImmediate(() => process.kill(process.pid, name)))`;

// Holds: nobody-served-too-early
t.test('a SIGTERM that comes as soon as a port is open, or long before, ends the gateway in order', async (t) => {
  const probe = createServer();
  const port = await listenOnFreePort(probe);
  await new Promise((resolve) => probe.close(resolve));
  const env = gatewayEnvironment(t, { env: { GW_PORT: String(port) } });
  const first = launch(t, process.execPath, [MAIN, 'start'], { env });
  await eventually('the port', async () => ((await canConnect(port)) ? true : undefined));
  first.kill('SIGTERM');
  t.match(await first.ended, { code: 0, signal: null });
  t.match(first.stdout, /"msg":"stopped"/);

  // A store that is slow to open stands for a long start: the signal is there before it is asked for.
  const early = await run(t, process.execPath, ['--import', EARLY_SIGNAL, MAIN, 'start'], { env });
  t.match(early, { code: 0, signal: null, stderr: '' });
  t.notMatch(early.stdout, /is running/, 'no port was opened');
});

t.test('SIGHUP, which a terminal sends that is closed, drains as SIGTERM does', async (t) => {
  const { child } = await startGatewayProcess(t);
  child.kill('SIGHUP');
  t.match(await child.ended, { code: 0, signal: null });
  t.match(child.stdout, /"msg":"stopped"/);
});
