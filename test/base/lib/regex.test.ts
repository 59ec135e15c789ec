import { RE2JS } from 're2js';
import t from 'tap';
import { compileRegex, heldPatterns, LazyRegex } from '../../../src/base/lib/regex.ts';
import { regexSteps } from '../../../src/base/lib/regex-steps.ts';
import { atOnce, inSlices, type Sliced } from '../../../src/base/lib/slices.ts';
import { POLICY_BOUNDS } from '../../../src/base/model/work-bounds.ts';

/** Numbers that are the same each time. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 16) % below;
  };
}

const CLASSES = ['[a-z]', '[^a-z0-9_]', '[]a]', '[\\]a-]', '[[:alpha:]x]', '[\\d\\pL]', '[a-\\x{10ff}]', '[^\\pN-]', '[-a]'];
const ESCAPES = [
  '\\d',
  '\\.',
  '\\pL',
  '\\p{Greek}',
  '\\x{41}',
  '\\x41',
  '\\b',
  '^',
  '$',
  '\\Qa.b\\E',
  '\u{1f600}',
  '\\101',
  '{',
  'a{',
  'a{,3}',
  '\\\\',
];
const REPEATS = ['*', '+', '?', '*?', '+?', '??', '{2}', '{2,}', '{0,3}', '{1,5}?', '{0}', '{0,}', '{0,1}', '{17}'];

function somePattern(below: (n: number) => number, depth: number): string {
  const inner = () => somePattern(below, depth - 1);
  const of = (list: readonly string[]) => list[below(list.length)] ?? '';
  switch (below(depth > 0 ? 13 : 5)) {
    case 0:
      return of(['a', 'b', 'c', '.', 'é']);
    case 1:
      return of(CLASSES);
    case 2:
    case 3:
      return of(ESCAPES);
    case 4:
      return 'hello';
    case 5:
      return `(${inner()})`;
    case 6:
      return `(?:${inner()})`;
    case 7:
      return `${inner()}|${inner()}`;
    case 8:
    case 9:
      return inner() + of(REPEATS);
    case 10:
      return inner() + inner() + inner();
    case 11:
      return `${of(['(?i)', '(?i:', '(?s)', '(?-i:'])}${inner()}`;
    default:
      return `(?P<n${below(99_999)}>${inner()})`;
  }
}

t.test('the size of a pattern is told by its text, never lower than it is and seldom much higher', async (t) => {
  const below = numbers(7);
  let read = 0;
  let written = 0;
  let told = 0;
  for (let i = 0; i < 8_000; i++) {
    const pattern = somePattern(below, 4);
    let size: number;
    try {
      size = RE2JS.compile(pattern).programSize();
    } catch {
      continue;
    }
    const steps = regexSteps(pattern);
    if (steps < size) t.fail(`${pattern} has ${size}, told are ${steps}`);
    if (/\\[pP]/.test(pattern)) continue;
    read++;
    written += size;
    told += steps;
  }
  t.ok(read > 3_000, `${read} patterns`);
  t.ok(told < 1.5 * written, `${told} of ${written}`);
});

t.test('what is slow to compile counts for more than its instructions, and what is repeated as often as it is', async (t) => {
  for (const [pattern, least, most] of [
    ['a{0,900}b{0,900}c{0,900}d{0,900}e{0,900}', 9_002, 9_010],
    ['(a{0,30}){0,30}', 1_892, 1_900],
    ['((((a{2}){3}){4}){5}){6}', 720, 4_000],
    ['^claude-(3-|4-)?opus', 22, 25],
    ['[\\p{L}\\p{N} ]{1,200}', 400, 600],
    ['\\pL'.repeat(300), 15_000, 16_000],
    [`(?i)${'[a-\\x{10ffff}]'.repeat(60)}`, 100_000, 300_000],
    ['('.repeat(1_000), 0, 10_000],
    ['['.repeat(1_000), 0, 10_000],
    ['\\', 0, 10],
    ['(?', 0, 10],
    ['', 0, 10],
  ] as const) {
    const steps = regexSteps(pattern);
    t.ok(steps >= least && steps <= most, `${pattern.slice(0, 40)}: ${steps}`);
  }
});

t.test('a pattern that is too large is refused before it is compiled, and says by how much', async (t) => {
  const before = heldPatterns();
  t.throws(() => new LazyRegex('(a{0,99}){0,99}'), { name: 'RegexSyntaxError', message: /19\d{3} steps, more than 10000$/ });
  t.throws(() => compileRegex(`(?i)${'[a-\\x{10ffff}]'.repeat(60)}`), { message: /too large/ });
  t.equal(heldPatterns(), before);
});

t.test('identical patterns have one program', async (t) => {
  const before = heldPatterns();
  const held = Array.from({ length: 100 }, () => compileRegex('one[0-9]{3}program'));
  t.ok(held.every((regex) => regex.test('one123program') && !regex.test('one12program')));
  t.equal(heldPatterns(), before + 1);
});

t.test('a test answers the same whether its states are kept or were let go of', async (t) => {
  const many = Array.from({ length: POLICY_BOUNDS.automata.all + 40 }, (_, i) => compileRegex(`[a-f]+x[0-9]{2}${i}$`));
  for (let round = 0; round < 2; round++) {
    t.ok(many.every((regex, i) => regex.test(`--abcx42${i}`) && !regex.test(`--abcx4${i}y`)));
  }
  // Needs more states than are kept: it goes on by another way.
  const dear = compileRegex('a[ab]{60}[cd]');
  const text = Array.from({ length: 3_000 }, (_, i) => (((i * 2_654_435_761) >>> 7) & 1 ? 'a' : 'b')).join('');
  t.notOk(dear.test(text));
  t.ok(dear.test(`${text}${'a'.repeat(61)}c`));
});

t.test('what a test costs follows from the pattern and the length: few states cost little on a long text', async (t) => {
  const cost = (pattern: string, length: number) => compileRegex(pattern).cost(length);
  for (const pattern of [
    '(?i)(password|secret|api[_-]?key)\\s*[:=]\\s*\\S+',
    '\\b\\d{3}-\\d{2}-\\d{4}\\b',
    'sk-[A-Za-z0-9]{20,60}',
    '^gpt-4.*$',
    'literal',
  ])
    t.ok(cost(pattern, 1_000_000) < 500_000, `${pattern}: ${cost(pattern, 1_000_000)}`);
  const dear = 'a[ab]{400}[cd]';
  t.equal(cost(dear, 999), regexSteps(dear) * 1_000);
  t.equal(cost(dear, 999), cost(dear, 999));
  t.ok(cost('(?i)\\bsecret\\b', 10) < 1_000, 'a short text is tried as it is');
});

t.test('work in slices has turns between them, at once it has none', async (t) => {
  function* work(): Sliced<string> {
    for (let i = 0; i < 100; i++) yield 500;
    return 'done';
  }
  let turns = 0;
  t.equal(
    await inSlices(work(), async () => {
      turns++;
    }),
    'done',
  );
  t.equal(turns, 25);
  t.equal(atOnce(work()), 'done');
});
