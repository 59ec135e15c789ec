import t from 'tap';
import { parseTraceParent } from '../../../src/base/lib/trace-context.ts';
import { Tracer } from '../../../src/services/sending/traces/tracer.ts';

const parent = (flags: string) => parseTraceParent(`00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-${flags}`);

t.test('the caller decides where the sampler is based on the parent, and the ratio where there is none', async (t) => {
  const none = new Tracer({ parentBased: true, ratio: 0 });
  t.equal(none.begin(undefined, undefined).own?.sampled, false);
  t.match(none.begin(parent('01'), 'a=1'), {
    traceId: parent('01')?.traceId,
    parentId: '00f067aa0ba902b7',
    own: { sampled: true, flags: 1, state: 'a=1' },
  });
  const all = new Tracer({ parentBased: true, ratio: 1 });
  t.match(all.begin(parent('02'), undefined).own, { sampled: false, flags: 2 }, 'that the id is random is passed on');
  t.match(all.begin(undefined, undefined), { parentId: undefined, own: { sampled: true, flags: 3 } });
  t.equal(new Tracer({ parentBased: false, ratio: 1 }).begin(parent('00'), undefined).own?.sampled, true);
  t.equal(new Tracer({ parentBased: false, ratio: 0 }).begin(parent('01'), undefined).own?.sampled, false);
});

t.test('a ratio samples its share, and every gateway the same traces', async (t) => {
  const [one, other] = [new Tracer({ parentBased: true, ratio: 0.25 }), new Tracer({ parentBased: false, ratio: 0.25 })];
  let sampled = 0;
  for (let at = 0; at < 4_000; at += 1) {
    const { traceId, own } = one.begin(undefined, undefined);
    if (own?.sampled) sampled += 1;
    if (other.begin({ traceId, spanId: '00f067aa0ba902b7', flags: 0 }, undefined).own?.sampled !== own?.sampled) t.fail(traceId);
  }
  t.ok(sampled > 800 && sampled < 1_200, String(sampled));
});

t.test('a call on a WebSocket is inside of the span of its handshake', async (t) => {
  const tracer = new Tracer({ parentBased: true, ratio: 1 });
  const handshake = tracer.begin(parent('01'), undefined);
  const call = tracer.inside(handshake);
  t.match(call, { traceId: handshake.traceId, parentId: handshake.own?.server, parentIsRemote: false, own: { sampled: true } });
  t.not(call.own?.server, handshake.own?.server);
});
