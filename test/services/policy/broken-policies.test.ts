import { spawnSync } from 'node:child_process';
import { mkdirSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createLogger } from '../../../src/base/lib/log.ts';
import { refusal, somePlace } from '../../support/policies-place.ts';
import { gw } from '../../support/run-gw.ts';

/*
 * A sound policy, broken on purpose in every way that people break one. Each is told in the same words by `gw policy
 * check`, at start, by a bundle that is put and by one that is saved while the gateway runs: file, line, column, the
 * line with a caret, and what to do. What runs goes on.
 */

const SOUND = `schema: gw.policy_bundle.v1
bundle_id: my-policy
version: "1"

inline_rules:
  connectors:
    - id: allow.openai
      when: {field: context.connector.id, equals: openai}
      effect: {decision: allow}
  risk:
    - id: no.gpt4
      when: {field: context.action.params.model, equals: gpt-4}
      effect: {decision: deny, reason: use a smaller model}
`;
const WHEN = 'when: {field: context.action.params.model, equals: gpt-4}';
const HEAD = 'schema: gw.policy_bundle.v1\n';

/** The sound policy with one place of it replaced. */
function but(old: string, with_: string): string {
  if (!SOUND.includes(old)) throw new Error(`the policy has no ${old}`);
  return SOUND.replace(old, with_);
}

interface Broken {
  readonly text: string | Uint8Array;
  /** `line:column`, and the words of message and hint. */
  readonly at: string;
  readonly says: RegExp;
  readonly hint: RegExp;
  /** Only a folder can be broken so. */
  readonly notPut?: true;
}

const BOMB = `${HEAD}a: &a [1,1,1,1,1,1,1,1,1,1]\n${[...'bcdefgh'].map((name, i) => `${name}: &${name} [${Array(10).fill(`*${'abcdefg'[i]}`).join(',')}]\n`).join('')}`;

const BROKEN: Readonly<Record<string, Broken>> = {
  'a line that is indented too far': {
    text: but(`      ${WHEN}`, `       ${WHEN}`),
    at: '11:11',
    says: /Nested mappings/,
    hint: /indent this line, or the next/,
  },
  'a line that is indented too little': {
    text: but(`      ${WHEN}`, `     ${WHEN}`),
    at: '12:1',
    says: /without - indicator/,
    hint: /indent the line/,
  },
  'a tab': { text: but(`      ${WHEN}`, `\t${WHEN}`), at: '12:1', says: /Tabs/, hint: /spaces/ },
  'a wrong key': { text: but('effect: {decision: deny', 'efect: {decision: deny'), at: '13:7', says: /"efect"/, hint: /"effect"/ },
  'no effect': { text: but('      effect: {decision: allow}\n', ''), at: '7:7', says: /no effect/, hint: /effect: \{decision: deny\}/ },
  'a wrong operator': { text: but('model, equals', 'model, eqauls'), at: '12:50', says: /"eqauls"/, hint: /"equals"/ },
  'an unknown field': { text: but('connector.id', 'conector.id'), at: '8:21', says: /conector/, hint: /context\.connector\.id/ },
  'an unknown decision': { text: but('decision: deny', 'decision: denny'), at: '13:26', says: /"denny"/, hint: /"deny"/ },
  'an unknown layer': { text: but('  risk:', '  rsk:'), at: '10:3', says: /"rsk"/, hint: /"risk"/ },
  'a priority that is no number': {
    text: but('- id: no.gpt4', '- priority: high\n      id: no.gpt4'),
    at: '11:17',
    says: /whole number/,
    hint: /higher/,
  },
  'a value of the wrong type': {
    text: but(WHEN, 'when: {field: context.stream, equals: "yes"}'),
    at: '12:45',
    says: /not true or false/,
    hint: /true or false/,
  },
  'a list in the place of a value': { text: but('equals: gpt-4', 'equals: [gpt-4]'), at: '12:58', says: /list/, hint: /`in`/ },
  'a value in the place of a list': { text: but('equals: gpt-4', 'in: gpt-4'), at: '12:54', says: /must be a list/, hint: /\[gpt-4\]/ },
  'a layer that is no list': {
    text: `${HEAD}inline_rules:\n  risk:\n    id: x\n    effect: {decision: deny}\n`,
    at: '4:5',
    says: /must be a list/,
    hint: /"- "/,
  },
  'an id that stands twice': {
    text: but('- id: no.gpt4', '- id: no.gpt4\n      effect: {decision: deny}\n    - id: no.gpt4'),
    at: '13:7',
    says: /already has a rule "no\.gpt4", at .*:11/,
    hint: /another id/,
  },
  'a key that stands twice': { text: `${SOUND}  risk: []\n`, at: '14:3', says: /"risk" stands twice/, hint: /keep one/ },
  'a pattern that is none': { text: but('equals: gpt-4', 'matches: "gpt-(4"'), at: '12:59', says: /missing closing \)/, hint: /RE2/ },
  'a range that is none': {
    text: but(WHEN, 'when: {field: context.caller_ip, cidr: 10.0.0.0/33}'),
    at: '12:46',
    says: /10\.0\.0\.0\/33/,
    hint: /0 to 32 for IPv4/,
  },
  'an unknown day': {
    text: but(WHEN, 'when: {field: context.time, between: {days: [monday]}}'),
    at: '12:52',
    says: /"monday"/,
    hint: /did you mean "mon"/,
  },
  'another schema': {
    text: but('policy_bundle.v1', 'policy_bundle.v2'),
    at: '1:9',
    says: /schema must be/,
    hint: /gw\.policy_bundle\.v1 a bundle/,
  },
  'no schema': { text: but(HEAD, ''), at: '1:1', says: /schema is missing/, hint: /schema:/ },
  'an empty file': { text: '', at: '1:1', says: /must begin with schema/, hint: /schema:/ },
  'a file that is not there': {
    text: `${HEAD}files: [rules/gone.yaml]\n`,
    at: '2:9',
    says: /rules\/gone\.yaml/,
    hint: /folder/,
    notPut: true,
  },
  'a file that is named twice': {
    text: `${HEAD}files: [rules/sound.yaml, rules/sound.yaml]\n`,
    at: '2:27',
    says: /stands twice/,
    hint: /remove one/,
    notPut: true,
  },
  'a bundle that names itself': {
    text: `${HEAD}files: [bundle.yaml]\n`,
    at: '1:9',
    says: /gw\.rule_file\.v1/,
    hint: /is a bundle/,
    notPut: true,
  },
  'a way out of the folder': {
    text: `${HEAD}files: [../secrets.yaml]\n`,
    at: '2:9',
    says: /inside the policies folder/,
    hint: /without a leading/,
    notPut: true,
  },
  'a brace that is not closed': {
    text: but('equals: gpt-4}', 'equals: gpt-4'),
    at: '13:7',
    says: /end with a \}/,
    hint: /\{ is not closed/,
  },
  'a quote that is not closed': {
    text: but('reason: use', 'reason: "use'),
    at: '14:1',
    says: /closing "quote/,
    hint: /quote .* not closed/,
  },
  'no space behind a colon': { text: but('id: no.gpt4', 'id:no.gpt4'), at: '11:7', says: /single line/, hint: /colon, with a space/ },
  'a colon in a text': { text: but('reason: use a', 'reason: use: a'), at: '13:40', says: /flow/, hint: /needs quotes/ },
  'a reserved character': { text: but('equals: gpt-4', 'equals: @gpt'), at: '12:58', says: /reserved character @/, hint: /quotes/ },
  'a merge key': {
    text: but('- id: no.gpt4\n', '- <<: {id: no.gpt4}\n      id: no.gpt4\n'),
    at: '11:7',
    says: /unknown key of a rule "<<"/,
    hint: /merge keys are not part of YAML 1\.2/,
  },
  'a rule that stands twice by an alias': {
    text: `${HEAD}inline_rules:\n  risk:\n    - &r {id: a, effect: {decision: deny}}\n    - *r\n`,
    at: '5:7',
    says: /already has a rule "a", at .*:4/,
    hint: /another id/,
  },
  'yes for true': {
    text: but(WHEN, 'when: {field: context.purpose, exists: yes}'),
    at: '12:46',
    says: /exists must be true or false/,
    hint: /yes, no, on and off are texts/,
  },
  'true in quotes': {
    text: but(WHEN, 'when: {field: context.purpose, exists: "true"}'),
    at: '12:46',
    says: /exists must be true or false/,
    hint: /without quotes/,
  },
  'a bucket that is too large': {
    text: but('{decision: deny,', '{rate_limit: {requests_per_minute: 1000000000},'),
    at: '13:50',
    says: /from 1 to 999999999/,
    hint: /digits/,
  },
  'a tag': { text: but('equals: gpt-4', 'equals: !!js/regexp gpt-4'), at: '12:58', says: /tag/, hint: /plain value/ },
  'two documents': { text: `${SOUND}---\n${SOUND}`, at: '14:1', says: /second document/, hint: /---/ },
  'an alias of itself': { text: `${HEAD}inline_rules: &r\n  risk: *r\n`, at: '3:9', says: /no anchor/, hint: /&r/ },
  'aliases that multiply': { text: BOMB, at: '7:17', says: /500000 nodes/, hint: /fewer aliases/ },
  'too many levels': { text: `${HEAD}inline_rules: ${'['.repeat(200)}`, at: '1:1', says: /levels of nesting/, hint: /fewer/ },
  'Windows line ends, and a wrong operator': {
    text: but('model, equals', 'model, eqauls').replaceAll('\n', '\r\n'),
    at: '12:50',
    says: /"eqauls"/,
    hint: /"equals"/,
  },
  'a byte order mark, and a wrong schema': {
    text: `\ufeff${but('bundle.v1', 'bundle.v9')}`,
    at: '1:9',
    says: /schema must be/,
    hint: /schema:/,
  },
  'a control character': { text: but('use a', 'use \u0007 a'), at: '13:44', says: /U\+0007/, hint: /remove it/ },
  'Latin-1': { text: Buffer.from(but('use a', 'für ein'), 'latin1'), at: '13:41', says: /not UTF-8/, hint: /UTF-8/, notPut: true },
  'UTF-16': { text: Buffer.from(`\ufeff${SOUND}`, 'utf16le'), at: '1:1', says: /not UTF-8/, hint: /UTF-8/, notPut: true },
  'more than is read': {
    text: `${SOUND}#${'x'.repeat(4 * 1024 * 1024)}\n`,
    at: '1:1',
    says: /larger than/,
    hint: /several files/,
    notPut: true,
  },
};

/** What a person must see: place, message, the line, a caret, the hint. */
function isTold(t: Test, text: string, file: string, { at, says, hint }: Broken, way: string): void {
  const first = text.slice(text.indexOf(`${file}:${at}: error`));
  t.ok(text.includes(`${file}:${at}: error`), `${way}: names ${file}:${at} in ${text}`);
  t.match(first.split('\n')[0], says, `${way}: says what is wrong`);
  t.match(first, /^ +\d+ \| /m, `${way}: shows the line`);
  t.match(first, /^ +\| \s*\^/m, `${way}: with a caret`);
  const given = /hint: (.*)/.exec(first)?.[1];
  t.match(given, hint, `${way}: says what to do`);
}

for (const [name, broken] of Object.entries(BROKEN)) {
  t.test(`${name} is told`, async (t) => {
    const place = await somePlace(t);
    const lines: string[] = [];
    const log = createLogger({ level: 'error', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
    place.write('bundle.yaml', SOUND);
    place.write('rules/sound.yaml', 'schema: gw.rule_file.v1\nlayer: risk\nrules: []\n');
    const service = await place.open('enterprise', undefined, log);
    const running = service.current();
    if (broken.notPut === undefined) {
      const error = await refusal(service.put(String(broken.text)));
      isTold(t, error.message, 'bundle_yaml', broken, 'put');
      const [line, column] = broken.at.split(':').map(Number);
      const detail = error.details?.find((found) => found.line === line && found.column === column);
      t.match(detail, { file: 'bundle_yaml', message: broken.says, hint: broken.hint, code: /./ });
      t.equal(service.current(), running);
    }
    place.write('bundle.yaml', broken.text);
    await service.follow();
    t.equal(lines.length, 1);
    isTold(t, String((JSON.parse(lines[0] ?? '{}') as { msg: unknown }).msg), 'bundle.yaml', broken, 'saved');
    t.equal(service.current(), running, 'what runs goes on');
    isTold(t, (await refusal(service.reload())).message, 'bundle.yaml', broken, 'reloaded');
    t.equal(service.current(), running);
    isTold(t, (await refusal(place.open())).message, 'bundle.yaml', broken, 'started');
    const { code, out, err } = await gw(['policy', 'check', place.dir]);
    t.ok(code > 0);
    isTold(t, out + err, join(place.dir, 'bundle.yaml'), broken, 'checked');
  });
}

t.test('what is no file is refused, and not waited for', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', `${HEAD}files: [rules/pipe.yaml]\n`);
  place.write('rules/sound.yaml', 'schema: gw.rule_file.v1\nlayer: risk\nrules: []\n');
  const pipe = join(place.dir, 'rules', 'pipe.yaml');
  const says = async (what: RegExp) => {
    t.match((await refusal(place.open())).message, what);
    for (const path of [place.dir, join(place.dir, 'bundle.yaml')]) t.ok((await gw(['policy', 'check', path])).code > 0);
  };
  if (process.platform !== 'win32') {
    t.equal(spawnSync('mkfifo', [pipe]).status, 0);
    await says(/pipe\.yaml: the file cannot be read \(it is no regular file\)/);
    unlinkSync(pipe);
    symlinkSync('/dev/zero', pipe);
    await says(/it is no regular file/);
    unlinkSync(pipe);
  }
  mkdirSync(pipe);
  await says(/pipe\.yaml: the file cannot be read/);
  rmdirSync(pipe);
  writeFileSync(pipe, '#'.repeat(12 * 1024 * 1024 + 1));
  await says(/it is larger than 12582912 bytes/);
  unlinkSync(pipe);
  symlinkSync('sound.yaml', pipe);
  t.equal((await place.open()).current().policy.layers.length, 1, 'what a link points to is read');
});

t.test('the policy that was broken is sound', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', SOUND);
  t.equal((await place.open()).current().policy.ruleCount, 2);
});
