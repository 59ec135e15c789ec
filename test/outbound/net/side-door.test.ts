// What the gateway asks for by itself: whole, bounded in size and time, through the guard.
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { SideDoor } from '../../../src/outbound/net/side-door.ts';
import type { RawWays, Upstream, UpstreamCall, UpstreamEvents } from '../../../src/outbound/net/upstream.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const TO = { authority: { host: 'lists.example.com', port: 443 }, tls: true, path: '/data.json?k=1', operatorOwn: false };

/** Ways out that the test plays. */
function played() {
  const calls: { call: UpstreamCall; events: UpstreamEvents; aborted: boolean }[] = [];
  const ways = {
    call(call: UpstreamCall, events: UpstreamEvents) {
      const one = { call, events, aborted: false };
      calls.push(one);
      return { abort: () => (one.aborted = true) };
    },
  } as unknown as Upstream & RawWays;
  const clock = fakeClock();
  return { clock, calls, door: new SideDoor(ways, clock) };
}

const request = { to: TO, headers: ['accept', 'application/json'], maxBytes: 10, signal: new AbortController().signal };

t.test('an answer comes whole, with its status and fields, and is asked for without a body', async (t) => {
  const { door, calls, clock } = played();
  const asked = door.get(request);
  t.match(calls[0]?.call, { ...TO, method: 'GET', headers: request.headers, body: undefined });
  calls[0]?.events.onHead(200, ['ETag', '"a"'], () => undefined);
  for (const piece of ['01234', '56789']) t.equal(calls[0]?.events.onData(Buffer.from(piece)), true);
  calls[0]?.events.onEnd([]);
  const answer = await asked;
  t.same([answer.status, answer.headers.get('etag'), Buffer.from(answer.body).toString()], [200, '"a"', '0123456789']);
  t.equal(clock.pending, 0);
});

t.test('one that is longer than is taken is read no further', async (t) => {
  const { door, calls, clock } = played();
  const asked = door.get(request);
  calls[0]?.events.onHead(200, [], () => undefined);
  calls[0]?.events.onData(Buffer.from('0123456789'));
  t.equal(calls[0]?.aborted, false);
  calls[0]?.events.onData(Buffer.from('!'));
  await t.rejects(asked, { code: 'upstream_protocol', message: 'lists.example.com sent a longer answer than is taken.' });
  t.same([calls[0]?.aborted, clock.pending], [true, 0]);
});

t.test('one that does not come in its time, or is not waited for any more, is given up', async (t) => {
  const { door, calls, clock } = played();
  const late = door.get({ ...request, timeoutMs: 60_000 });
  clock.advance(59_999);
  t.equal(calls[0]?.aborted, false);
  clock.advance(1);
  await t.rejects(late, { code: 'upstream_timeout', message: /60 seconds/ });
  t.equal(calls[0]?.aborted, true);
  const ending = new AbortController();
  const left = door.get({ ...request, signal: ending.signal });
  ending.abort();
  await t.rejects(left, { code: 'shutting_down' });
  t.equal(calls[1]?.aborted, true);
  await t.rejects(door.get({ ...request, signal: ending.signal }), { code: 'shutting_down' });
  t.equal(calls.length, 2, 'nothing is asked then');
});

t.test('what the way says is said', async (t) => {
  const { door, calls } = played();
  const asked = door.get(request);
  calls[0]?.events.onError(new GatewayError('egress_denied', 'lists.example.com is a private address.'));
  await t.rejects(asked, { code: 'egress_denied' });
});
