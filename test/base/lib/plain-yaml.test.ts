import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { readPlainYaml } from '../../../src/base/lib/plain-yaml.ts';
import { MAX_YAML_NODES, parseAnyYaml, toPlain } from '../../../src/base/lib/yaml.ts';

/*
 * The quick reader is judged by the general parser: whatever it reads at all is read as that does, with every place, and is free of errors there.
 */

const quick = (text: string) => readPlainYaml(text, MAX_YAML_NODES);

/** Undefined when both agree or the quick reader leaves the text to the other. */
function difference(text: string): unknown {
  const read = quick(text);
  if (read === undefined) return undefined;
  const { root, errors } = parseAnyYaml(text, 'x');
  return JSON.stringify({ root: read, errors: [] }) === JSON.stringify({ root, errors }) ? undefined : { text, read, root, errors };
}

const folder = join(packageRoot(), 'policies');
const shipped = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));

t.test('every shipped policy file, and the form in which programs write large ones, is in the plain form', async (t) => {
  t.ok(shipped.length > 30);
  for (const { name, text } of shipped) {
    t.ok(quick(text), name);
    t.equal(difference(text), undefined, name);
  }
  const rule = (i: number) =>
    `    - id: r${i}\n      priority: ${i}\n      when:\n        all:\n          - field: context.workload.id\n            equals: "w${i}"\n          - {field: context.caller_ip, cidr: [10.0.0.0/8, 2001:db8::/32]}\n      effect: {decision: deny, reason: "no: not you"}  # ${i}\n`;
  const large = `schema: gw.policy_bundle.v1\nversion: 1.10\ninline_rules:\n  risk:\n${Array.from({ length: 2000 }, (_, i) => rule(i)).join('')}`;
  t.ok(quick(large));
  t.equal(difference(large), undefined);
});

t.test('what is beyond the plain form is left to the general parser', async (t) => {
  for (const text of [
    '',
    'text',
    '{a: 1}',
    'a:\n',
    'a: {\n  b: 1}\n',
    'a: |\n  b\n',
    'a: b\n  c\n',
    'a: &x 1\nb: *x\n',
    'a: !!str 1\n',
    'a: "\\n"\n',
    "a: 'it''s'\n",
    'a: b: c\n',
    'a: 1\na: 2\n',
    'a: {b: 1, b: 2}\n',
    'a: [1, 2,]\n',
    'a: 0x10\n',
    'a: 1e3\n',
    'a: .5\n',
    'a: -0\n',
    'a: 012\n',
    '? a\n: b\n',
    'a:\tb\n',
    'a: b\r\n',
    '---\na: b\n',
    'a: b\n...\n',
    'a: b\n c: d\n',
    'a:\n  b: c\n d: e\n',
    'a: @b\n',
    'a: "b" c\n',
    'a: {b}\n',
    `${'a'.repeat(300)}: b\n`,
    `a: ${'['.repeat(50)}${']'.repeat(50)}\n`,
  ]) {
    t.equal(quick(text), undefined, JSON.stringify(text));
  }
  t.equal(readPlainYaml('a: [1, 2, 3]', 5), undefined, 'too many nodes');
  t.ok(readPlainYaml('a: [1, 2, 3]', 6));
});

t.test('values are those of the core schema', async (t) => {
  const text =
    'a: [true, null, ~, yes, 1, -12, 0.25, 1.10, 1.2.3, 10.0.0.0/8, 12:30, 4o-mini, -x, a#b, "1", \'~\', gpt-4]\n"b c": {d: [], e: {}}\nf:\n- g: h\n  i: j # k\n- - l\n';
  t.same(toPlain(quick(text) ?? { kind: 'seq', items: [], line: 0, column: 0 }), {
    a: [true, null, null, 'yes', 1, -12, 0.25, 1.1, '1.2.3', '10.0.0.0/8', '12:30', '4o-mini', '-x', 'a#b', '1', '~', 'gpt-4'],
    'b c': { d: [], e: {} },
    f: [{ g: 'h', i: 'j' }, ['l']],
  });
  t.equal(difference(text), undefined);
});

t.test('texts that are nearly plain are read as the general parser reads them', async (t) => {
  const bits =
    '\n| |  |, |: |:|- |-|#| #|"|\'|{|}|[|]|,|&a |*a|!|>|?|%|@|~|null|0|1.10|0x1f|0o7|1e3|.5|+1|\n  |\n    |\n- |a: b|\t|\r|\u00a0|é|😀|---|...|=|<<: |\\'.split(
      '|',
    );
  const pieces = shipped.flatMap(({ text }) => text.split(/\n(?=\S)/)).filter((piece) => piece.length < 2000);
  const edit = fc.record({ at: fc.nat(2000), remove: fc.nat(5), bit: fc.constantFrom('', '|', ...bits) });
  let plain = 0;
  fc.assert(
    fc.property(fc.constantFrom(...pieces), fc.array(edit, { maxLength: 3 }), (piece, edits) => {
      const text = edits.reduce((so, { at, remove, bit }) => {
        const from = at % (so.length + 1);
        return so.slice(0, from) + bit + so.slice(from + remove);
      }, piece);
      if (quick(text) !== undefined) plain++;
      const found = difference(text);
      if (found !== undefined) throw new Error(JSON.stringify(found));
    }),
    { numRuns: 2000 },
  );
  t.ok(plain > 200, `${plain} of them are in the plain form`);
});

/** Values, keys and ends of lines that one of the two readers could take for something else. */
const WORDS =
  'a|true|True|tRUE|yes|no|on|null|NULL|~|1|0|-1|-0|+1|012|0o17|0x1f|0b1|1_000|1e3|1.5|1.10|1.|.5|-.5|.inf|-.INF|.nan|+.nan|.|..|---|-|-a|2024-01-01|12:30|10.0.0.0/8|::1|a::b|a:|a: b|:a|?|? a|#|a#b|a #b|&x a|*x|!t|!!str 1|\\||>|>-|%a|@a|`|"|"a"|"a: b"|"a # b"|""|\'\'|\'it\'\'s\'|"\\n"|"a"b|a"b|"a" |{|}|[|]|,|a, b|a{b|a[b]|{}|{a: b}|{a: 1, b: [2, x]}|{a}|{a:b}|{a:}|{a : b}|{"a":b}|[a: b]|[a:b]|[a, b,]|[ a ]|{a: b, a: c}|[a #b]|[a] b|[a]: b|<<|__proto__|999999999999999|9999999999999999|0.1234567|00|\u00a0|é|a b|- a|- - a|- a: b|a |123: 4|true: x'.split(
    /(?<!\\)\|/,
  );
const { block } = fc.letrec<{ block: string[]; entry: string[]; item: string[] }>((tie) => {
  // Mostly plain ones: of a text with one that is not, the general parser reads all.
  const odd = fc.constantFrom(...WORDS.map((text) => text.replace('\\|', '|')));
  const word = fc.oneof({ weight: 4, arbitrary: fc.constantFrom('a', 'b c', '1', 'true', '"q"', '[a, b]', '{a: 1}', '{}') }, odd);
  const end = fc.constantFrom('', '', '', '', ' ', ' # c', '#c', ' #', '\t');
  const key = fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom('a', 'b', 'c', 'd', '"e"', "'f'", '1', 'true') },
    { weight: 1, arbitrary: word },
  );
  const deeper = (by: number, lines: readonly string[]) => lines.map((line) => ' '.repeat(by) + line);
  const many = (lines: fc.Arbitrary<string[]>) => fc.array(lines, { minLength: 1, maxLength: 3 }).map((all) => all.flat());
  return {
    block: fc.oneof({ maxDepth: 4 }, many(tie('entry')), many(tie('item'))),
    entry: fc.oneof(
      { maxDepth: 4 },
      fc.tuple(key, fc.constantFrom(' ', ' ', '  ', ''), word, end).map((parts) => [`${parts[0]}:${parts.slice(1).join('')}`]),
      fc
        .tuple(key, end, fc.constantFrom(0, 1, 2, 2, 4), tie('block'))
        .map(([name, tail, by, inner]) => [`${name}:${tail}`, ...deeper(by, inner)]),
    ),
    item: fc.oneof(
      { maxDepth: 4 },
      fc.tuple(word, end).map((parts) => [`- ${parts.join('')}`]),
      fc
        .tuple(fc.constantFrom(1, 1, 2, 3), tie('block'))
        .map(([gap, [first = '', ...rest]]) => [`-${' '.repeat(gap)}${first}`, ...deeper(1 + gap, rest)]),
    ),
  };
});

t.test('structures of every kind are read as the general parser reads them', async (t) => {
  let plain = 0;
  fc.assert(
    fc.property(block, fc.constantFrom('\n', '\n', '\n', '\r\n', '\n\n', '\n# c\n'), (lines, newline) => {
      const text = lines.join(newline);
      if (quick(text) !== undefined) plain++;
      const found = difference(text);
      if (found !== undefined) throw new Error(JSON.stringify(found));
    }),
    { numRuns: 5000 },
  );
  t.ok(plain > 200, `${plain} of them are in the plain form`);
});
