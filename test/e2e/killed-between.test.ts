// A process that is killed at the one moment that matters: between the record's commit and the event on which an
// application acts (decision 7.9).
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import t, { type Test } from 'tap';
import { gatewayEnvironment, launchGateway } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { HOST, RESPONSES, talk } from '../support/metered-sockets.ts';
import { openAiSocket } from '../support/openai-sockets.ts';
import { startOpenaiStream } from '../support/openai-stream.ts';
import { overOf } from '../support/over-of.ts';
import { connectThrough, h2Session } from '../support/raw-clients.ts';
import { storedRecords } from '../support/stored-records.ts';
import { towards } from '../support/upstreams.ts';
import { closing, opened, startSocketUpstream, webSocketOn } from '../support/websockets.ts';

const CALLER = 'the-one';
const HEADERS = { authorization: 'Bearer k', 'x-gw-caller-id': CALLER };
const STREAM = JSON.stringify({ model: 'gpt-4o-mini', messages: [], stream: true });

/**
 * Loaded into the gateway ahead of the program: kills it around the write of the record, or in front of that of the
 * terminal event to the client.
 */
const KILL = (moment: string, terminal: string): string =>
  `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  import { Duplex } from 'node:stream';
  const die = () => process.kill(process.pid, 'SIGKILL');
  const has = (chunk, mark) =>
    (typeof chunk === 'string' || ArrayBuffer.isView(chunk)) && Buffer.from(chunk.buffer ?? chunk, chunk.byteOffset ?? 'latin1', chunk.byteLength).includes(mark);
  const moment = ${JSON.stringify(moment)};
  if (moment === 'in front of the terminal event') {
    for (const name of ['write', 'end']) {
      const original = Duplex.prototype[name];
      Duplex.prototype[name] = function (chunk, ...rest) {
        if (has(chunk, ${JSON.stringify(terminal)})) die();
        return original.call(this, chunk, ...rest);
      };
    }
  } else {
    const { write, writeSync } = fs;
    const ends = (bytes) => has(bytes, ${JSON.stringify(`"caller_id":"${CALLER}"`)}) && has(bytes, '"stream_outcome":"complete"');
    const begin = (ours) => ours && moment === 'before the commit' && die();
    fs.writeSync = (fd, bytes, ...rest) => {
      begin(ends(bytes));
      const written = writeSync(fd, bytes, ...rest);
      if (ends(bytes)) die();
      return written;
    };
    // The way of the journal after a slow write.
    fs.write = (fd, bytes, ...rest) => {
      begin(ends(bytes));
      const done = rest.pop();
      write(fd, bytes, ...rest, (...result) => {
        if (ends(bytes)) die();
        done(...result);
      });
    };
    syncBuiltinESMExports();
  }
`)}`;

/** Makes one call and resolves with all that came until the connection broke. */
type Call = (t: Test, connect: (alpn?: readonly string[]) => Promise<TLSSocket>) => Promise<string>;

async function textUntilClose(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  await overOf(socket);
  return text;
}

const overHttp1: Call = async (_t, connect) => {
  const socket = await connect();
  const fields = Object.entries({ host: HOST, ...HEADERS, 'content-type': 'application/json', 'content-length': STREAM.length });
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${STREAM}`);
  return textUntilClose(socket);
};

const overHttp2: Call = async (_t, connect) => {
  const session = h2Session(await connect(['h2']), HOST);
  const stream = session.request({ ':method': 'POST', ':path': '/v1/chat/completions', 'content-type': 'application/json', ...HEADERS });
  stream.end(STREAM);
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  stream.on('error', () => undefined);
  await overOf(session);
  return text;
};

const overWebSocket: Call = async (t, connect) => {
  const socket = webSocketOn(t, await connect(), HOST, RESPONSES, { headers: HEADERS });
  const { events } = talk(socket);
  await opened(socket);
  const closed = closing(socket);
  socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'x' }));
  await closed;
  return events.map((event) => JSON.stringify(event)).join('\n');
};

for (const [kind, call, begun, terminal] of [
  ['a stream over http/1.1', overHttp1, '"w0 "', 'data: [DONE]'],
  ['a stream over h2', overHttp2, '"w0 "', 'data: [DONE]'],
  ['a call on a WebSocket', overWebSocket, 'response.output_text.delta', '"type":"response.completed"'],
] as const) {
  t.test(`killed at the end of ${kind}`, async (t) => {
    const upstream =
      call === overWebSocket
        ? await startSocketUpstream(t, { hosts: [HOST], onSocket: openAiSocket })
        : // So far apart that what comes before the terminal event has left when it does.
          await startOpenaiStream(3, { gapMs: 50 });
    if ('close' in upstream) t.teardown(() => upstream.close());
    for (const [moment, recorded] of [
      ['before the commit', 0],
      ['after the commit', 1],
      ['in front of the terminal event', 1],
    ] as const) {
      await t.test(
        `${moment}: ${recorded === 0 ? 'nobody has seen an end' : 'the record is there, and nobody has seen an end'}`,
        async (t) => {
          const env = gatewayEnvironment(t, { bundle: ALLOW_ALL, env: towards(t, upstream, [HOST]) });
          const gw = await launchGateway(t, env, { nodeOptions: ['--import', KILL(moment, terminal)] });
          const caPem = readFileSync(gw.caFile, 'utf8');
          const text = await call(t, async (alpn) => {
            const socket = await connectThrough(gw.port, `${HOST}:443`, caPem, alpn === undefined ? {} : { alpn });
            t.teardown(() => socket.destroy());
            return socket;
          });
          t.match(await gw.child.ended, { signal: 'SIGKILL' });
          t.ok(text.includes(begun), 'it had begun');
          t.notOk(text.includes(terminal), 'its end was not seen');
          const records = (await storedRecords(String(env['GW_DATA_DIR']))).filter(
            ({ caller_id: caller, record_tier: tier }) => caller === CALLER && tier === 'action',
          );
          t.equal(records.length, recorded);
          for (const record of records) t.match(record, { decision: 'allow', stream_outcome: 'complete' });
        },
      );
    }
  });
}
