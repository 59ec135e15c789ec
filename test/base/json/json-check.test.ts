import t from 'tap';
import { isJson } from '../../../src/base/json/json-check.ts';
import { cpuClock } from '../../support/cpu-clock.ts';
import { fc } from '../../support/properties.ts';

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

t.test('it is what JSON.parse takes', async () => {
  const tokens = [
    '{',
    '}',
    '[',
    ']',
    '"',
    ':',
    ',',
    ' ',
    '\t',
    '\n',
    '0',
    '1',
    '-',
    '.',
    'e',
    'E',
    '+',
    'true',
    'fals',
    'e',
    'null',
    'a',
    '\\',
    'u',
    '00ff',
    '"a"',
    '\u2028',
    '\u0000',
    'ü',
  ];
  const broken = fc.array(fc.constantFrom(...tokens), { maxLength: 12 }).map((list) => list.join(''));
  const cut = fc.tuple(fc.json(), fc.nat(), fc.constantFrom('', ...tokens)).map(([json, at, more]) => {
    const from = at % (json.length + 1);
    return json.slice(0, from) + more + json.slice(from + (at % 2));
  });
  fc.assert(
    fc.property(fc.oneof(broken, cut, fc.json()), (text) => isJson(Buffer.from(text)) === parses(text)),
    { numRuns: 20_000 },
  );
});

t.test('deeper than programs read is none', async (t) => {
  t.ok(isJson(Buffer.from('['.repeat(512) + ']'.repeat(512))));
  t.notOk(isJson(Buffer.from('['.repeat(513) + ']'.repeat(513))));
  t.notOk(isJson(Buffer.from('{"a":'.repeat(100_000))));
});

t.test('the dearest texts take linear time', async (t) => {
  for (const text of ['{},', '[],', '1,', '"",', '{"a":{}},']) {
    const bytes = Buffer.from(`[${text.repeat(Math.ceil(4_000_000 / text.length))}1]`);
    let fastest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 4 && fastest > 400; i++) {
      const clock = cpuClock();
      t.ok(isJson(bytes));
      fastest = Math.min(fastest, clock.spent());
    }
    t.ok(fastest <= 400, `${text} ${fastest.toFixed(0)} ms for 4 MB`);
  }
});
