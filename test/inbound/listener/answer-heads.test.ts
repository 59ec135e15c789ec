// What an upstream says in a head either is written or is refused before anything is: no head, of whatever fields,
// throws where nobody can answer any more.
import { connect, constants } from 'node:http2';
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { Arrival, ReplySink } from '../../../src/base/model/arrival.ts';
import { type HasTeardown, h2Client, h2Request, openTunnel, startListener, tlsInside } from './harness.ts';

type Way = (reply: ReplySink, status: number, fields: readonly string[]) => void;

const AT_ONCE = 50;
const BODY = Buffer.from('hello');

/** All ways in which an answer is given. */
const WAYS: Readonly<Record<string, Way>> = {
  whole: (reply, status, fields) => reply.sendWhole(status, fields, BODY),
  'whole and empty': (reply, status, fields) => reply.sendWhole(status, fields, new Uint8Array(0)),
  'in pieces': (reply, status, fields) => {
    reply.head(status, fields);
    reply.write(BODY);
    reply.end();
  },
  'with its length': (reply, status, fields) => {
    reply.head(status, fields, BODY.length);
    reply.write(BODY);
    reply.end();
  },
  'with no length to come': (reply, status, fields) => {
    reply.head(status, fields, 0);
    reply.end();
  },
  'ended by its head': (reply, status, fields) => {
    reply.head(status, fields, undefined, true);
    reply.end();
  },
  'with trailers': (reply, status, fields) => {
    reply.head(status, fields);
    reply.write(BODY);
    reply.end(['x-sum', '1', ...fields]);
  },
};

/** Answers what `x-way` and `x-case` ask for; what is refused at its head becomes a 502, as everywhere. */
function answering(cases: readonly (readonly [number, readonly string[]])[]): (arrival: Arrival) => void {
  return ({ head, reply }) => {
    const [status, fields] = cases[Number(head.headers['x-case'])] ?? [500, []];
    try {
      WAYS[head.headers['x-way'] ?? '']?.(reply, status, fields);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'upstream_protocol' || reply.headSent) throw error;
      reply.sendWhole(502, [], Buffer.from('refused'));
    }
  };
}

async function answersOf(
  t: HasTeardown & { notOk(value: unknown, name: string): unknown },
  cases: readonly (readonly [number, readonly string[]])[],
  ways: readonly string[],
) {
  const harness = await startListener(t, { onArrival: answering(cases) });
  const session = await h2Client(t, harness);
  const asked = cases.flatMap((_, at) => ways.map((way) => ({ at, way })));
  const answers = [];
  for (let from = 0; from < asked.length; from += AT_ONCE) {
    const batch = asked.slice(from, from + AT_ONCE).map(async ({ at, way }) => {
      const answer = await h2Request(session, { ':method': 'GET', 'x-case': String(at), 'x-way': way });
      return { ...answer, at, way, status: Number(answer.headers[':status']) };
    });
    answers.push(...(await Promise.all(batch)));
  }
  t.notOk(session.destroyed, 'the connection lives');
  return answers;
}

t.test('h2: every field that HTTP knows may come twice', async (t) => {
  const names = Object.entries(constants).flatMap(([key, name]) =>
    key.startsWith('HTTP2_HEADER_') && typeof name === 'string' ? [name] : [],
  );
  const others = ['x-request-id', 'constructor', '__proto__', 'te', 'trailer', 'upgrade', 'proxy-connection', ':status', ':path'];
  const all = [...new Set([...names, ...others])];
  const cases = all.map((name) => [200, [name, 'first', name, 'second', 'x-last', 'here']] as const);
  const answers = await answersOf(t, cases, Object.keys(WAYS));
  t.equal(answers.length, all.length * Object.keys(WAYS).length);
  for (const { at, way, status, rstCode, headers } of answers) {
    const name = all[at] ?? '';
    const got = headers[name];
    const written = status === 200 && rstCode === 0 && headers['x-last'] === 'here';
    if (!written || (got !== undefined && !String(got).startsWith('first') && !name.startsWith(':') && name !== 'content-length'))
      t.fail(`${name} ${way}: ${status} ${rstCode} ${String(got)}`);
  }
});

t.test('h2: every final status is written, in every way; others are refused at the head', async (t) => {
  const statuses = [
    ...Array.from({ length: 400 }, (_, at) => 200 + at),
    0,
    99,
    100,
    101,
    103,
    150,
    199,
    600,
    999,
    1000,
    -1,
    200.5,
    Number.NaN,
  ];
  const cases = statuses.map((status) => [status, ['x-last', 'here']] as const);
  for (const { at, way, status, rstCode, body } of await answersOf(t, cases, Object.keys(WAYS))) {
    const wanted = statuses[at] ?? 0;
    const isFinal = Number.isInteger(wanted) && wanted >= 200 && wanted < 600;
    const isEmpty = [204, 205, 304].includes(wanted) || /empty|no length|ended/.test(way);
    const expected = isFinal ? (isEmpty ? '' : 'hello') : 'refused';
    if (status !== (isFinal ? wanted : 502) || rstCode !== 0 || body !== expected) t.fail(`${wanted} ${way}: ${status} ${rstCode} ${body}`);
  }
});

t.test('h2: a head as large as an upstream may send it is written, with what the gateway adds', async (t) => {
  const fields = Array.from({ length: 64 }, (_, at) => [`x${at}`, '~'.repeat(1_015)]).flat();
  const harness = await startListener(t, { onArrival: ({ reply }) => reply.sendWhole(200, [...fields, 'x-ours', '~'.repeat(500)], BODY) });
  const secure = await tlsInside(t, harness, await openTunnel(t, harness.listener.port), { ALPNProtocols: ['h2'] });
  const session = connect('https://api.openai.com', { createConnection: () => secure, settings: { maxHeaderListSize: 200_000 } });
  t.teardown(() => session.destroy());
  const answer = await h2Request(session, { ':method': 'GET' });
  t.match([answer.headers[':status'], answer.rstCode, answer.body], [200, 0, 'hello']);
});
