import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createConnection } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { startTestGateway } from '../support/gateway.ts';
import { chat, startGoverned } from '../support/governed.ts';
import { tempDir } from '../support/temp-dir.ts';

async function takenPort(t: Parameters<typeof startTestGateway>[0]): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return String((server.address() as AddressInfo).port);
}

function unusable(setting: string, path: string, reason: string): RegExp {
  return new RegExp(`^${setting}: the folder ${path} cannot be used: ${reason} \\(E[A-Z]+: `);
}

t.test('what keeps a port or a folder from being opened is said by the setting to change', async (t) => {
  const port = await takenPort(t);
  const file = join(tempDir(t), 'file');
  writeFileSync(file, '');
  const bundleFolder = tempDir(t);
  mkdirSync(join(bundleFolder, 'bundle.yaml'));
  const table: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [{ GW_PORT: port }, new RegExp(`^GW_PORT: port ${port} of 127\\.0\\.0\\.1 is in use`)],
    [{ GW_AMBIENT_PORT: port }, new RegExp(`^GW_AMBIENT_PORT: port ${port} of 127\\.0\\.0\\.1 is in use`)],
    // TEST-NET-1 (RFC 5737): no machine has this address.
    [{ GW_HOST: '192.0.2.7', GW_PROXY_AUTH: 'required' }, /^GW_HOST: "192\.0\.2\.7" is no address of this machine/],
    ...['GW_DATA_DIR', 'GW_CA_DIR', 'GW_CREDENTIALS_DIR'].flatMap((setting) =>
      [file, join(file, 'below')].map((path): (typeof table)[number] => [
        { [setting]: path },
        unusable(setting, path, 'it, or something on its path, is a file and no folder'),
      ]),
    ),
    [{ GW_POLICIES_DIR: join(file, 'below') }, /^There is no policy bundle: .*GW_POLICIES_DIR/],
    [{ GW_POLICIES_DIR: bundleFolder }, /bundle\.yaml: the file cannot be read .*GW_POLICIES_DIR/],
    // Where Linux says neither yes nor no, and Node's own way to make folders asks for ever.
    ...(process.platform === 'linux' ? ['GW_DATA_DIR', 'GW_CA_DIR'] : []).map((setting): (typeof table)[number] => [
      { [setting]: '/proc/none/here' },
      unusable(setting, '/proc/none/here', 'nothing can be made there'),
    ]),
  ];
  for (const [env, message] of table) await t.rejects(startTestGateway(t, { env }), { message }, JSON.stringify(env));
});

t.test('start and stop are lines of the log, and so is what a stop had to cut', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line) => void lines.push(line) } });
  let arrive = (): void => undefined;
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { gw } = await startGoverned(t, { log, env: { GW_DRAIN_TIMEOUT: '50ms' }, handler: () => arrive() });
  const logged = () => lines.map((line) => JSON.parse(line) as { level: string; msg: string; port?: number; version?: string });
  t.match(
    logged().find(({ msg }) => msg === 'started'),
    { level: 'info', port: gw.port, version: /^\d+\.\d+\.\d+/ },
  );
  const client = createConnection(gw.port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => client.destroy());
  const { body } = chat();
  client.write(`POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${body?.length ?? 0}\r\n\r\n`);
  client.write(body ?? '');
  await arrived;
  await gw.gateway.stop();
  const said = logged().filter(({ msg }) => /stop|cut/.test(msg));
  t.match(said, [
    { level: 'info', msg: /^stopping/ },
    { level: 'warn', msg: /GW_DRAIN_TIMEOUT was cut/ },
    { level: 'info', msg: 'stopped' },
  ]);
});
