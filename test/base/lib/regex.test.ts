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

const draw = numbers(3);
/** A text that leads `a[ab]{60}` to another state with each character. */
const random = Array.from({ length: 3_000 }, () => 'ab'[draw(2)]).join('');

t.test('a test answers the same whether its states are kept or were let go of', async (t) => {
  // More than have states at a time.
  const { all, one } = POLICY_BOUNDS.automata;
  const many = Array.from({ length: (2 * all) / one }, (_, i) => compileRegex(`[a-f]+x[0-9]{2}${i}$`));
  const filling = Array.from({ length: all / one + 40 }, (_, i) => compileRegex(`(?:[ab]{12}|${i})a[ab]{60}[cd]`));
  for (let round = 0; round < 2; round++) {
    t.ok(many.every((regex, i) => regex.test(`--abcx42${i}`) && !regex.test(`--abcx4${i}y`)));
    t.notOk(filling.some((regex) => regex.test(random.slice(0, 400))));
  }
  // Needs more states than are kept: it goes on by another way.
  const dear = compileRegex('a[ab]{60}[cd]');
  t.notOk(dear.test(random));
  t.ok(dear.test(`${random}${'a'.repeat(61)}c`));
});

t.test('what a test costs follows from the pattern and the text: few states cost little on a long text', async (t) => {
  const held = new Map<string, LazyRegex>();
  const cost = (pattern: string, text: string) => {
    const regex = held.get(pattern) ?? new LazyRegex(pattern);
    held.set(pattern, regex);
    let told = 0;
    regex.testSpending(text, (steps) => {
      told += steps;
    });
    return told;
  };
  const prose = 'The key AKIA is not here, and 4111 is no card; write to nobody@example. '.repeat(5_600);
  const usual = [
    '(?i)(password|secret|api[_-]?key)\\s*[:=]\\s*\\S+',
    '\\b\\d{3}-\\d{2}-\\d{4}\\b',
    'sk-[A-Za-z0-9]{20,60}',
    '^gpt-4.*$',
    'literal',
    'AKIA[0-9A-Z]{16}',
    '\\b(?:\\d[ -]*?){13,16}\\b',
    'sk-ant-[A-Za-z0-9_-]{80,120}',
    'eyJ[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10,}',
    '[A-Z]{2}\\d{2}[A-Z0-9]{11,30}',
  ];
  for (const pattern of usual) t.ok(cost(pattern, prose) < 700_000, `${pattern}: ${cost(pattern, prose)}`);
  const dear = 'a[ab]{400}[cd]';
  const full = regexSteps(dear) * (random.length + 1);
  t.ok(cost(dear, random) > 2 * full, 'all instructions for each character, as it leads to too many states');
  t.ok(cost(dear, 'c'.repeat(random.length)) < full, 'and only then');
  for (const pattern of [dear, ...usual]) {
    for (const text of [prose, random, prose.slice(0, 500), `${random}${'a'.repeat(401)}c`, random]) {
      const first = cost(pattern, text);
      cost(pattern, `${random.slice(7)}${prose}`);
      t.equal(cost(pattern, text), first, 'whatever it has read before');
    }
  }
  t.ok(cost('(?i)\\bsecret\\b', 'no secrets') < 1_000, 'a short text is tried as it is');
});

t.test('a test that would go on too slowly ends before it does, and the next one is as ever', async (t) => {
  const regex = new LazyRegex('a[ab]{300}[cd]');
  let left = 2_000_000;
  const spend = (steps: number) => {
    left -= steps;
    if (left < 0) throw new Error('too much');
  };
  t.throws(() => regex.testSpending(random.repeat(10), spend), /too much/);
  left = Number.POSITIVE_INFINITY;
  t.notOk(regex.testSpending(random.repeat(10), spend));
  t.ok(regex.testSpending(`${random}${'a'.repeat(301)}d`, spend));
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
  t.equal(turns, 100);
  t.equal(atOnce(work()), 'done');
});
