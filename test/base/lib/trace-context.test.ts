import t from 'tap';
import { isTraceState, newSpanId, newTraceId, parseTraceParent, traceParentText } from '../../../src/base/lib/trace-context.ts';

const ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

t.test('a traceparent is read as W3C Trace Context says', async (t) => {
  t.same(parseTraceParent(`00-${ID}-${SPAN}-01`), { traceId: ID, spanId: SPAN, flags: 1 });
  t.equal(traceParentText({ traceId: ID, spanId: SPAN, flags: 3 }), `00-${ID}-${SPAN}-03`);
  t.same(parseTraceParent(`cc-${ID}-${SPAN}-00`), { traceId: ID, spanId: SPAN, flags: 0 }, 'a version to come');
  t.ok(parseTraceParent(`cc-${ID}-${SPAN}-00-more`), 'which has more to say');
  const invalid = [
    '',
    `ff-${ID}-${SPAN}-01`,
    `00-${ID}-${SPAN}-01-more`,
    `cc-${ID}-${SPAN}-01.more`,
    `00-${ID}-${SPAN}-01,00-${ID}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${ID}-${'0'.repeat(16)}-01`,
    `00-${ID.toUpperCase()}-${SPAN}-01`,
    `00-${ID}-${SPAN}-1`,
    `00_${ID}_${SPAN}_01`,
    ` 00-${ID}-${SPAN}-01`,
    `00-${ID.slice(1)}-${SPAN}-011`,
  ];
  for (const text of invalid) t.equal(parseTraceParent(text), undefined, text);
});

t.test('a tracestate that is not valid is known as such', async (t) => {
  const members = (count: number) => Array.from({ length: count }, (_, at) => `k${at}=v`).join(',');
  for (const text of ['rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'tenant@vendor=1', 'a=1, b=2 ,,c=3', members(32), 'a= x'])
    t.ok(isTraceState(text), text);
  for (const text of [
    '',
    ',',
    'novalue',
    'A=1',
    'a=1,a=2',
    'a=b=c',
    'a=ü',
    members(33),
    `${','.repeat(5_000)}a=1`,
    `a=${'x'.repeat(257)}`,
  ]) {
    t.notOk(isTraceState(text), text.slice(0, 40));
  }
});

t.test('ids are hex of their length and never the same', async (t) => {
  const spans = new Set(Array.from({ length: 1_000 }, newSpanId));
  const traces = new Set(Array.from({ length: 1_000 }, newTraceId));
  t.equal(spans.size + traces.size, 2_000);
  t.ok([...spans].every((id) => /^[0-9a-f]{16}$/.test(id)));
  t.ok([...traces].every((id) => /^[0-9a-f]{32}$/.test(id)));
});
