import t from 'tap';
import {
  MAX_JSON_DEPTH,
  MAX_JSON_TOKENS,
  parseSafeJson,
  parseSafeJsonText,
  type SafeJsonOptions,
} from '../../../src/base/json/safe-json.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { fc } from '../../support/properties.ts';

const encoder = new TextEncoder();

function outcome(input: string | Uint8Array, options?: SafeJsonOptions): string {
  try {
    const read = parseSafeJson(typeof input === 'string' ? encoder.encode(input) : input, options);
    return read.doubt === undefined ? 'ok' : `${read.doubt.kind}:${read.doubt.path}`;
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
}

t.test('what is not UTF-8 or not JSON is refused with the code that the caller asked for', async (t) => {
  const malformed: readonly (string | Uint8Array)[] = [
    '',
    ' ',
    '{',
    '{"a":1',
    '{"a"',
    '"',
    '"\\',
    '{"a":"\\"}',
    '[1,]',
    '{} {}',
    '}',
    ']]]]',
    '\u{feff}',
    '\u{feff}\u{feff}{}',
    ' \u{feff}{}',
    '{\u{feff}}',
    '{}\u{feff}',
    'NaN',
    '{"a":Infinity}',
    "{'a':1}",
    '{"a":01}',
    '{"\\x":1}',
    new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    new Uint8Array([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]),
    new Uint8Array([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]),
  ];
  for (const input of malformed) {
    t.equal(outcome(input), 'ambiguous_body', JSON.stringify(input));
    t.equal(outcome(input, { malformed: 'invalid_request' }), 'invalid_request');
  }
});

t.test('a duplicate name of the outermost object is a doubt, however it is spelled', async (t) => {
  const table: readonly (readonly [string, string])[] = [
    ['{"a":1,"a":2}', 'duplicate_name:a'],
    ['{"model":"x","m\\u006fdel":"y"}', 'duplicate_name:model'],
    ['{"a":{"b":1},"c":[{"d":1}],"a":{}}', 'duplicate_name:a'],
    ['{"__proto__":1,"__proto__":2}', 'duplicate_name:__proto__'],
    ['{"__proto__":1}', 'ok'],
    ['{"":1,"":2}', 'duplicate_name:'],
    ['{"a\\"b":1,"a\\u0022b":2}', 'duplicate_name:a"b'],
    ['{"a":"\\"a\\":1,\\"a\\":2"}', 'ok'],
    ['{"a":{"b":1,"b":2}}', 'ok'],
    ['[{"a":1,"a":2}]', 'ok'],
    ['{"a":1,"A":2}', 'ok'],
    ['{"1":1,"01":2}', 'ok'],
  ];
  for (const [text, expected] of table) t.equal(outcome(text), expected, text);
});

t.test('a chain of members is watched for duplicates too', async (t) => {
  const options = { chain: ['action', 'params'] };
  const table: readonly (readonly [string, string])[] = [
    ['{"action":{"type":"a","type":"b"}}', 'duplicate_name:action.type'],
    ['{"x":1,"action":{"params":{"m":1,"m":2}}}', 'duplicate_name:action.params.m'],
    ['{"\\u0061ction":{"p\\u0061rams":{"m":1,"\\u006d":2}}}', 'duplicate_name:action.params.m'],
    ['{"action":{"a":{"params":{"m":1,"m":2}},"params":{}}}', 'ok'],
    ['{"action":{"params":{"deep":{"m":1,"m":2}}}}', 'ok'],
    ['{"other":{"m":1,"m":2},"action":{"params":{}}}', 'ok'],
    ['{"action":[{"m":1,"m":2}]}', 'ok'],
    ['{"action":5,"b":{"m":1,"m":2}}', 'ok'],
    ['{"action":{},"b":{"params":{"m":1,"m":2}}}', 'ok'],
    ['{"action":{"params":null,"z":{"m":1,"m":2}},"b":1}', 'ok'],
    ['{"action":{"params":{"a":1},"type":"x"},"b":1,"b":2}', 'duplicate_name:b'],
  ];
  for (const [text, expected] of table) t.equal(outcome(text, options), expected, text);
});

t.test('numbers that would change are doubts', async (t) => {
  t.equal(outcome('{"a":1e999}'), 'not_finite:');
  t.equal(outcome('{"a":[-1E+400]}'), 'not_finite:');
  t.equal(outcome(`{"a":${'9'.repeat(400)}}`), 'not_finite:');
  t.equal(outcome('{"a":"1e999","b":1e30,"c":5e-400}'), 'ok');
  t.equal(outcome('{"a":9007199254740993}'), 'ok');
  t.equal(outcome('{"a":9007199254740993}', { exactIntegers: true }), 'integer_too_large:');
  t.equal(outcome('{"a":{"b":[-9007199254740992]}}', { exactIntegers: true }), 'integer_too_large:');
  t.equal(outcome('{"a":9007199254740991,"b":0.12345678901234567890,"c":1e20}', { exactIntegers: true }), 'ok');
});

t.test('depth and structural tokens are bounded outside of strings, before anything is built', async (t) => {
  t.equal(outcome('['.repeat(MAX_JSON_DEPTH) + ']'.repeat(MAX_JSON_DEPTH)), 'ok');
  t.equal(outcome('['.repeat(MAX_JSON_DEPTH + 1) + ']'.repeat(MAX_JSON_DEPTH + 1)), 'body_too_deep');
  t.equal(outcome('{"a":'.repeat(100_000)), 'body_too_deep');
  t.equal(outcome(JSON.stringify({ a: '[{'.repeat(100_000) })), 'ok');
  const full = `[${'"",'.repeat(MAX_JSON_TOKENS - 2)}""]`;
  t.equal(outcome(full), 'ok');
  t.equal(outcome(`[${'"",'.repeat(MAX_JSON_TOKENS - 1)}""]`), 'body_too_deep');
  t.equal(outcome('{},'.repeat(11_000_000)), 'body_too_deep');
  t.equal(outcome(`{"a":"${'\\"'.repeat(1_000_000)}"}`), 'ok', 'escaped quotes are linear');
  t.equal(outcome(`{"a":"${'\\'.repeat(2_000_000)}"}`), 'ok', 'a run of backslashes is linear');
});

t.test('one byte order mark before it is no part of the text', async (t) => {
  for (const text of ['{"model":"gpt-4o"}', ' [1, 2]', '"é"']) {
    const marked = parseSafeJson(encoder.encode(`\ufeff${text}`));
    t.same([marked.text, marked.value], [text, JSON.parse(text)]);
    t.same(parseSafeJsonText(`\ufeff${text}`), marked);
  }
  t.equal(outcome('\ufeff{"a":1,"\\u0061":2}'), 'duplicate_name:a');
});

t.test('commas and brackets of arrays of plain numbers do not count', async (t) => {
  const tokensOf = (text: string): number => parseSafeJsonText(text).tokens;
  const table: readonly (readonly [text: string, tokens: number])[] = [
    ['[1,2,3]', 0],
    [' [ -1 , 2.5e3\n,\t0 ] ', 0],
    ['[[1,2],[3],[4,5,6]]', 4],
    ['{"a":[1,2],"b":[3]}', 5],
    ['[1,2,"3"]', 4],
    ['["3",1,2]', 4],
    ['[1,2,null]', 4],
    ['[true,1,2]', 4],
    ['[1,2,[]]', 6],
    ['[1,2,[3,4]]', 4],
    ['[1,2,{"a":1}]', 7],
    ['[{},1,2]', 6],
    ['[]', 2],
    ['[[],[]]', 7],
    ['{"a":1,"b":2}', 5],
  ];
  for (const [text, tokens] of table) t.equal(tokensOf(text), tokens, text);
  t.equal(parseSafeJsonText('[[1,2],["x",3],[4]]').numbers, 3);

  const ids = Array.from({ length: 299 }, (_, i) => 50_000 + i);
  t.equal(outcome(JSON.stringify({ model: 'm', input: Array.from({ length: 1000 }, () => ids) })), 'ok', 'what providers take');
  t.equal(outcome(`[${'0.25, '.repeat(1_000_000)}1]`), 'ok');
  t.equal(outcome(`[${'1,'.repeat(1_000_000)}"1"]`), 'body_too_deep', 'one text makes it another array');
  t.equal(outcome(`[${'1,'.repeat(1_000_000)}[]]`), 'body_too_deep');
  t.equal(outcome(`[${'[1],'.repeat(MAX_JSON_TOKENS)}[1]]`), 'body_too_deep', 'arrays of arrays count');
  t.equal(outcome(`[${'[],'.repeat(MAX_JSON_TOKENS)}[]]`), 'body_too_deep');
  t.equal(outcome(`${'['.repeat(MAX_JSON_DEPTH + 1)}1${']'.repeat(MAX_JSON_DEPTH + 1)}`), 'body_too_deep');
  t.equal(outcome(`[${'1,'.repeat(300_000)}1e999]`), 'not_finite:');
});

t.test('any bytes end in a value or in a GatewayError, and valid is what JSON.parse takes for valid', async (t) => {
  const check = (text: string) => {
    let expected: unknown;
    let valid = true;
    try {
      expected = JSON.parse(text);
    } catch {
      valid = false;
    }
    try {
      const read = parseSafeJsonText(text, { chain: ['a', 'b'], exactIntegers: true });
      return valid && JSON.stringify(read.value) === JSON.stringify(expected);
    } catch (error) {
      return error instanceof GatewayError && (error.code === 'body_too_deep' || !valid);
    }
  };
  t.doesNotThrow(() => fc.assert(fc.property(fc.json({ maxDepth: 5 }), check), { numRuns: 300 }));
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    '"a"',
    '"b"',
    '\\u0061',
    '1',
    '-',
    'e',
    '9e999',
    'true',
    'null',
    ' ',
    '\n',
    'é',
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => check(pieces.join(''))),
      { numRuns: 2000 },
    ),
  );
  const bytes = fc.property(fc.uint8Array({ maxLength: 60 }), (input) => typeof outcome(input) === 'string');
  t.doesNotThrow(() => fc.assert(bytes, { numRuns: 500 }));
});

t.test('a duplicate is found exactly where a list of names has one', async (t) => {
  const name = fc.constantFrom('a', 'b', 'c', 'action', '__proto__', 'é');
  const escaped = (text: string) => `"${[...text].map((c) => `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`).join('')}"`;
  const property = fc.property(fc.array(fc.tuple(name, fc.boolean(), fc.jsonValue({ maxDepth: 2 })), { maxLength: 6 }), (members) => {
    const text = `{${members.map(([key, spell, value]) => `${spell ? escaped(key) : JSON.stringify(key)}:${JSON.stringify(value)}`).join(',')}}`;
    const unique = new Set(members.map(([key]) => key)).size === members.length;
    return outcome(text, { chain: ['action'] }).startsWith('duplicate_name:') === !unique;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }));
});
