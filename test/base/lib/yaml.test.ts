import t from 'tap';
import { MAX_YAML_DEPTH, MAX_YAML_NODES, parseYaml, toPlain, yamlEntry, yamlMember } from '../../../src/base/lib/yaml.ts';
import { fc } from '../../support/properties.ts';

t.test('scalars keep their source text and their place', async (t) => {
  const { root, errors } = parseYaml('version: 1.10\nbudget:\n  usd_max: "5.00"\n  hex: 0x10\nlist: [a, 2]\n', 'bundle.yaml');
  t.same(errors, []);
  t.match(yamlMember(root, 'version'), { kind: 'scalar', value: 1.1, source: '1.10', quoted: false, line: 1, column: 10 });
  const budget = yamlMember(root, 'budget');
  t.match(yamlMember(budget, 'usd_max'), { value: '5.00', source: '5.00', quoted: true, line: 3, column: 12 });
  t.match(yamlEntry(budget, 'hex')?.key, { source: 'hex', line: 4, column: 3 });
  t.equal(yamlMember(budget, 'nothing'), undefined);
  t.same(toPlain(root), { version: 1.1, budget: { usd_max: '5.00', hex: 16 }, list: ['a', 2] });
});

t.test('JSON is YAML: any value that is written as JSON comes back the same', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const text = JSON.stringify(value);
      const { root, errors } = parseYaml(text, 'f');
      return errors.length === 0 && JSON.stringify(toPlain(root)) === JSON.stringify(JSON.parse(text));
    }),
    { numRuns: 300 },
  );
  t.pass();
});

t.test('an empty file is null, a missing value too, and YAML 1.1 words are text', async (t) => {
  t.equal(toPlain(parseYaml('', 'f').root), null);
  t.same(toPlain(parseYaml('a:\nb: yes\nc: ~\nd: 012\n', 'f').root), { a: null, b: 'yes', c: null, d: 12 });
});

t.test('a name such as __proto__ is a name like any other', async (t) => {
  const plain = toPlain(parseYaml('__proto__: {polluted: 1}\n', 'f').root);
  t.same(Object.keys(Object(plain)), ['__proto__']);
  t.equal(Reflect.get({}, 'polluted'), undefined);
});

t.test('every mistake is reported with its place', async (t) => {
  const cases: readonly (readonly [string, string, string, number, number])[] = [
    ['duplicate key', 'a: 1\nb: 2\na: 3\n', 'duplicate_key', 3, 1],
    ['the same name in two spellings', '"1": a\n1: b\n', 'duplicate_key', 2, 1],
    ['unknown tag', 'a: !secret x\n', 'unknown_tag', 1, 4],
    ['code tag', 'a: !!js/function "x"\n', 'unknown_tag', 1, 4],
    ['second document', 'a: 1\n---\nb: 2\n', 'multiple_documents', 2, 1],
    ['map as key', '? {a: 1}\n: b\n', 'bad_key', 1, 3],
    ['unclosed', 'a: [1, 2\n', 'syntax', 2, 1],
    ['tab as indentation', 'a:\n\tb: 1\n', 'syntax', 2, 1],
    ['unknown anchor', 'a: *nobody\n', 'bad_alias', 1, 4],
  ];
  for (const [name, text, code, line, column] of cases) {
    const { errors } = parseYaml(text, 'bundle.yaml');
    t.match(errors[0], { file: 'bundle.yaml', code, line, column, path: '' }, name);
  }
  t.equal(parseYaml('a: 1\na: 2\nb: 1\nb: 2\n', 'f').errors.length, 2, 'all at once');
});

t.test('a mistake is told in few words, however long the text is that it is about', async (t) => {
  for (const text of [
    `a: {b: [x], ${'c'.repeat(50_000)}\n`,
    `*${'d'.repeat(50_000)}`,
    `"${'e'.repeat(50_000)}": 1\n"${'e'.repeat(50_000)}": 2`,
  ]) {
    const { errors } = parseYaml(text, 'f.yaml');
    t.ok(errors.length > 0 && errors.every(({ message }) => message.length <= 501), `${text.slice(0, 20)} ...`);
  }
});

t.test('aliases work, and a bomb of them is refused at once', async (t) => {
  t.same(toPlain(parseYaml('a: &x [1, 2]\nb: *x\n', 'f').root), { a: [1, 2], b: [1, 2] });
  t.ok(parseYaml('a: &x [1, *x]\n', 'f').errors.length > 0, 'no cycles');
  const bomb = ['l0: &l0 [x]'];
  for (let i = 1; i < 40; i++)
    bomb.push(
      `l${i}: &l${i} [${Array(9)
        .fill(`*l${i - 1}`)
        .join(', ')}]`,
    );
  t.match(parseYaml(bomb.join('\n'), 'f').errors[0], { code: 'too_large', message: /aliases/, hint: /aliases/ });
  const nodes = '- - abcdef\n'.repeat(MAX_YAML_NODES / 2 + 1);
  t.match(parseYaml(nodes, 'f').errors, [{ code: 'too_large', message: /^more than 500000 nodes$/, hint: 'split it into several files' }]);
});

t.test('what holds too many values for its length is not parsed: the parser would need kilobytes for each', (t) => {
  const tooMany = {
    code: 'too_large',
    message: /^more than 500000 values, or more than 20000 of fewer than 3/,
    hint: 'split it into several files',
  };
  const dense = [':\n', 'a:\n', ': ', '1,', '-\n', '- \n', '[],', '{}\n', '?\n', '#\n', 'a\r\n', '*a,', '"":\n'];
  for (const piece of dense) {
    t.match(parseYaml(`[\n${piece.repeat(130_000)}`, 'f').errors, [tooMany], JSON.stringify(piece));
    t.notMatch(parseYaml(piece.repeat(2_000), 'f').errors, [tooMany], `a few ${JSON.stringify(piece)}`);
  }
  t.match(parseYaml(`[${'abcdefg,'.repeat(MAX_YAML_NODES + 1)}1]`, 'f').errors, [tooMany], 'too many, each of them long');
  t.same(parseYaml(`${'# long comments, with words\n\n\n\n'.repeat(20_000)}a: 1\n`, 'f').errors, [], 'empty lines hold nothing');
  t.same(
    parseYaml(`a: [${Array.from({ length: 100_000 }, (_, at) => at + 100).join(',')}]`, 'f').errors,
    [],
    'a long list of small numbers',
  );
  t.end();
});

t.test('nesting is bounded and nothing makes the parser throw', async (t) => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  t.same(parseYaml(nested(MAX_YAML_DEPTH), 'f').errors, []);
  const hostile = [
    nested(MAX_YAML_DEPTH + 1),
    nested(100_000),
    '['.repeat(200_000),
    '{a: '.repeat(50_000),
    '- '.repeat(20_000),
    '? '.repeat(20_000),
    `${'a: '.repeat(20_000)}`,
    '&a '.repeat(1000),
    '\u0000',
    '\ud800: \udfff',
    '%YAML 9.9\n---\na: 1',
    '!!!!',
    '- - -\n  - ? :',
  ];
  for (const text of hostile) {
    const { errors } = parseYaml(text, 'f');
    t.ok(Array.isArray(errors), text.slice(0, 12));
  }
  for (const text of hostile.slice(0, 5)) t.ok(parseYaml(text, 'f').errors.length > 0, text.slice(0, 12));
  let steps = '';
  for (let i = 0; i < 2000; i++) steps += `${' '.repeat(i)}a:\n`;
  t.match(parseYaml(steps, 'f').errors[0], { code: 'too_deep' });
  t.match(parseYaml('a'.repeat(4 * 1024 * 1024 + 1), 'f').errors[0], { code: 'too_large' });
});
