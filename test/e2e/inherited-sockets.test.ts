// A process that keeps both sockets, as systemd does, and runs one gateway after the other on them: nobody who connects
// meanwhile is refused.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { bareEnvironment, eventually } from '../support/child.ts';
import { gatewayEnvironment, MAIN } from '../support/gateway-process.ts';
import { openaiStreamEvent, openaiStreamTail } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { askSecure, portCertificate } from '../support/port-tls.ts';
import { storedRecords } from '../support/stored-records.ts';
import { tempDir } from '../support/temp-dir.ts';
import { listenOnFreePort, startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

/** Keeps its descriptors 3 and 4, and runs the gateway with them as often as it is told to. */
const KEEPER = `turn=0; while [ $turn -lt $TURNS ]; do turn=$((turn + 1)); sh -c 'echo "pid $$"; LISTEN_PID=$$ exec "$0" "$@"' "$0" "$@"; echo "exit $?"; done`;

interface Kept {
  readonly ports: readonly number[];
  text(): string;
  /** Process of the gateway of this turn, from 1. */
  pid(turn: number): Promise<number>;
  readonly ended: Promise<unknown>;
}

/** @param addresses of the sockets; a text with a slash is a file in the place of one */
async function keep(
  t: Test,
  env: Readonly<Record<string, string>>,
  turns: number,
  addresses: readonly string[] = ['127.0.0.1', '127.0.0.1'],
): Promise<Kept> {
  const servers: Server[] = [];
  const ports: number[] = [];
  const files: number[] = [];
  const descriptors: number[] = [];
  for (const address of addresses) {
    if (address.includes('/')) {
      files.push(openSync(address, 'w'));
      descriptors.push(files.at(-1) ?? 0);
      continue;
    }
    const server = createServer();
    ports.push(await listenOnFreePort(server, address));
    servers.push(server);
    // Node has no public way to hand over a socket that it does not listen on itself.
    descriptors.push((server as unknown as { _handle: { fd: number } })._handle.fd);
  }
  const child: ChildProcess = spawn('sh', ['-c', KEEPER, process.execPath, MAIN, 'start'], {
    env: { ...bareEnvironment(), ...env, TURNS: String(turns), LISTEN_FDS: String(addresses.length) },
    stdio: ['ignore', 'pipe', 'pipe', ...descriptors],
  });
  // From here on the child alone has them.
  for (const server of servers) server.close();
  for (const file of files) closeSync(file);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (part: string) => (text += part));
  const ended = new Promise((resolve) => child.once('close', resolve));
  const pids = (): number[] => [...text.matchAll(/^pid (\d+)$/gm)].map(([, pid]) => Number(pid));
  t.teardown(async () => {
    child.kill('SIGKILL');
    for (const pid of pids()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
    await ended;
  });
  return { ports, text: () => text, pid: (turn) => eventually(`turn ${turn}`, () => pids()[turn - 1]), ended };
}

interface Asked {
  readonly socket: Socket;
  answer(): string;
  readonly over: Promise<unknown>;
}

function ask(t: Test, port: number, request: string): Asked {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  let answer = '';
  socket.on('error', (error) => (answer += error.message));
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  const over = overOf(socket);
  socket.write(request);
  return { socket, answer: () => answer, over };
}

const HEALTH = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n';
const BODY = JSON.stringify({ model: 'gpt-4o-mini', messages: [], stream: true });
const STREAM = `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer k\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;

t.test('who connects while a gateway drains and the next one starts waits, and is served by that', async (t) => {
  let finish: (() => void) | undefined;
  const upstream = await startTlsUpstream({
    hosts: ['api.openai.com'],
    handler: (_request, response: ServerResponse) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(openaiStreamEvent(0));
      finish = () => void response.end(openaiStreamEvent(1) + openaiStreamTail());
    },
  });
  t.teardown(() => upstream.close());
  // The ports of the settings are not used.
  const env = gatewayEnvironment(t, { env: { ...towards(t, upstream, ['api.openai.com']), GW_PORT: '1', GW_AMBIENT_PORT: '2' } });
  const kept = await keep(t, env, 2);
  const [port = 0, ambientPort = 0] = kept.ports;
  await eventually('the first gateway', () => (kept.text().includes('is running') ? true : undefined));
  t.match(kept.text(), new RegExp(`proxy +http://127\\.0\\.0\\.1:${port}\n +ambient +http://127\\.0\\.0\\.1:${ambientPort}\n`));

  const stream = ask(t, port, STREAM);
  await eventually('the first event', () => (stream.answer().includes('"w0 "') ? true : undefined));
  process.kill(await kept.pid(1), 'SIGTERM');
  await eventually('the drain', () => (kept.text().includes('"msg":"stopping') ? true : undefined));
  const waiting = Array.from({ length: 40 }, (_, at) => ask(t, at % 2 === 0 ? port : ambientPort, HEALTH));
  await Promise.all(waiting.map(({ socket }) => eventually('the connection', () => (socket.readyState === 'open' ? true : undefined))));
  t.ok(
    waiting.every(({ answer }) => answer() === ''),
    'nobody is refused, nobody is answered yet',
  );
  finish?.();
  await stream.over;
  t.match(stream.answer(), /data: \[DONE\]\n\n\r\n0\r\n\r\n$/, 'what ran ends in order');
  await eventually('the end of the first gateway', () => (kept.text().includes('exit 0') ? true : undefined));
  for (const { over, answer } of waiting) {
    await over;
    t.match(answer(), /^HTTP\/1\.1 200 /);
  }
  process.kill(await kept.pid(2), 'SIGTERM');
  await kept.ended;
  t.match(kept.text(), /exit 0\n(?:.*\n)*exit 0\n$/);
  t.match(await storedRecords(String(env['GW_DATA_DIR'])), [{ stream_outcome: 'complete' }], 'no record is lost');
});

t.test('sockets that were handed over speak TLS like any other, and who connects meanwhile is served by the next gateway', async (t) => {
  const certificate = portCertificate(t);
  const kept = await keep(t, gatewayEnvironment(t, { env: certificate.env }), 2);
  const [port = 0, ambientPort = 0] = kept.ports;
  await eventually('the first gateway', () => (kept.text().includes('is running') ? true : undefined));
  t.match(kept.text(), new RegExp(`proxy +https://127\\.0\\.0\\.1:${port}\n +ambient +https://127\\.0\\.0\\.1:${ambientPort}\n`));
  for (const each of kept.ports) t.equal((await askSecure(each, certificate.ca.certPem, '/healthz')).status, 200);
  const plain = ask(t, port, HEALTH);
  await plain.over;
  t.match(plain.answer(), /^HTTP\/1\.1 400 .*https_required/s);
  process.kill(await kept.pid(1), 'SIGTERM');
  await eventually('the drain', () => (kept.text().includes('"msg":"stopping') ? true : undefined));
  const answers = await Promise.all(kept.ports.map((each) => askSecure(each, certificate.ca.certPem, '/healthz')));
  for (const { status } of answers) t.equal(status, 200);
  process.kill(await kept.pid(2), 'SIGTERM');
  await kept.ended;
  t.match(kept.text(), /exit 0\n(?:.*\n)*exit 0\n$/);
});

t.test('one socket is the proxy’s; the ambient port is then opened as the setting says', async (t) => {
  const kept = await keep(t, gatewayEnvironment(t), 1, ['127.0.0.1']);
  await eventually('the gateway', () => (kept.text().includes('is running') ? true : undefined));
  t.match(kept.text(), new RegExp(`proxy +http://127\\.0\\.0\\.1:${kept.ports[0]}\n +ambient +http://127\\.0\\.0\\.1:\\d+\n`));
  process.kill(await kept.pid(1), 'SIGTERM');
  await kept.ended;
});

t.test('a socket that others can reach needs GW_PROXY_AUTH, and one that is none is named', async (t) => {
  const open = await keep(t, gatewayEnvironment(t), 1, ['0.0.0.0', '127.0.0.1']);
  await open.ended;
  t.match(open.text(), /^GW_PROXY_AUTH is not set, but other machines can reach the socket that was handed over \(0\.0\.0\.0:\d+\)/m);
  t.match(open.text(), /exit 1\n$/);
  const file = await keep(t, gatewayEnvironment(t), 1, [join(tempDir(t), 'no-socket')]);
  await file.ended;
  t.match(file.text(), /^LISTEN_FDS: descriptor 3, which was handed over, is no TCP socket that listens/m);
});
