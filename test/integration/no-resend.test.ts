import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chat, startGoverned } from '../support/governed.ts';
import { connectThrough, h2Request, h2Session } from '../support/raw-clients.ts';
import { startRawUpstream } from '../support/raw-upstream.ts';
import { tempDir } from '../support/temp-dir.ts';
import { eachClient, spokenBy } from '../support/upstream-calls.ts';

const PATH = '/v1/chat/completions';
const OK = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}';

// Holds: no-resend
eachClient(
  'a kept connection that dies under a call costs that call a 502 with a record, and the upstream never sees it again',
  async (t, _open, client) => {
    const upstream = await startRawUpstream(
      (socket, text) => void (text.includes('fatal-') ? socket.destroy() : socket.write(OK)),
      ['api.openai.com'],
    );
    t.teardown(() => upstream.close());
    const roots = join(tempDir(t), 'roots.pem');
    writeFileSync(roots, upstream.caPem);
    const env = {
      GW_UPSTREAM_CA_FILE: roots,
      GW_UPSTREAM_CONNECT_TO: `api.openai.com:443=127.0.0.1:${upstream.port}`,
    };
    const { gw, send, through, execute, recordOf } = await startGoverned(t, { env, ...spokenBy(client) });
    const session = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
    t.teardown(() => session.destroy());
    const doors = {
      redirect: (mark: string) => send(chat(['X-Mark', mark])),
      'CONNECT http/1.1': (mark: string) => through('api.openai.com:443', chat(['X-Mark', mark], PATH)),
      'CONNECT h2': (mark: string) => h2Request(session, chat(['X-Mark', mark], PATH)),
    };
    const times = (mark: string): number => upstream.received.split(mark).length - 1;
    for (const [i, [door, call]] of Object.entries(doors).entries()) {
      t.equal((await call(`warm-${i}`)).status, 200, `${door}: opens or takes the kept connection`);
      const before = upstream.connections;
      const answer = await call(`fatal-${i}`);
      t.match(answer, { status: 502 }, door);
      t.match(await recordOf(answer), { decision: 'error', reason_codes: ['upstream_unreachable'] }, door);
      t.same([times(`warm-${i}`), times(`fatal-${i}`), upstream.connections], [1, 1, before], door);
    }
    t.match(await execute(), { status: 200 });
    const before = upstream.connections;
    t.match(await execute({}, { headers: { 'X-Mark': 'fatal-structured' } }), { status: 502, body: { decision: 'error' } });
    t.same([times('fatal-structured'), upstream.connections], [1, before]);
    t.equal((await send(chat())).status, 200, 'the next call gets a new connection');
  },
);
