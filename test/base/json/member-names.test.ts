import t from 'tap';
import { MemberNames } from '../../../src/base/json/member-names.ts';
import { fc } from '../../support/properties.ts';

const NAMES = ['model', 'messages', 'input'];
const BITS = new Map(NAMES.map((name, at) => [name, 1 << at]));

/** Which of the names a text has, in pieces of that size. */
function namesIn(text: string, size = 1_000): readonly string[] {
  const names = new MemberNames(BITS);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) names.push(bytes.subarray(at, at + size));
  return NAMES.filter((name) => (names.seen & (BITS.get(name) ?? 0)) !== 0);
}

t.test('names of the first level count, whatever stands in values and below', async (t) => {
  for (const [text, want] of [
    ['{"model":"m","messages":[]}', ['model', 'messages']],
    [' \n{ "messages" : [ {"model":1} ] , "x":"model" }', ['messages']],
    ['{"x":{"model":1,"input":[{"messages":2}]}}', []],
    ['{"x":"\\"model\\":","input":"\\\\"}', ['input']],
    ['{"x":["model",{"a":1},"messages"],"model":1}', ['model']],
    ['[{"model":1}]', []],
    ['"model"', []],
    ['model=1&messages=2', []],
    ['{"x":1}{"model":2}', []],
    ['{"a":}}}{"model":1', []],
    ['{"model', []],
    ['', []],
  ] as const) {
    for (const size of [1, 3, 1_000]) t.same(namesIn(text, size), want, `${text} in pieces of ${size}`);
  }
});

t.test('of any JSON object they are those that a parser finds, however it is cut', async () => {
  const key = fc.oneof(fc.constantFrom(...NAMES), fc.string());
  const plain = fc.dictionary(key, fc.jsonValue());
  fc.assert(
    fc.property(plain, fc.integer({ min: 1, max: 9 }), (value, size) => {
      const text = JSON.stringify(value);
      const found = namesIn(text, size);
      return NAMES.every((name) => Object.hasOwn(value, name) === found.includes(name));
    }),
  );
});

t.test('bytes of any kind end without an exception', async () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (pieces) => {
      const names = new MemberNames(BITS);
      for (const piece of pieces) names.push(piece);
    }),
  );
});
