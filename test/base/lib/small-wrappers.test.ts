import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { parseBasic } from '../../../src/base/lib/basic-credentials.ts';
import { parseDuration } from '../../../src/base/lib/clock.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { KnownNames } from '../../../src/base/lib/known-names.ts';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';
import { Lru } from '../../../src/base/lib/lru.ts';
import { nearestName } from '../../../src/base/lib/mistakes.ts';
import { packageRoot, packageVersion } from '../../../src/base/lib/package-root.ts';
import { compileRegex } from '../../../src/base/lib/regex.ts';
import { isWellFormed, shorten, toWellFormed } from '../../../src/base/lib/text.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { fakedIn, HOSTILE, hiddenIn } from '../../support/hostile-text.ts';
import { fc } from '../../support/properties.ts';

t.test("durations are Go's, plus days", async (t) => {
  const cases: Readonly<Record<string, number>> = {
    '0': 0,
    '0s': 0,
    '90s': 90_000,
    '1h30m': 5_400_000,
    '1.5h': 5_400_000,
    '.5s': 500,
    '90d': 7_776_000_000,
    '250ms': 250,
    '1m0.5s': 60_500,
    '5us': 0.005,
    '5µs': 0.005,
  };
  for (const [text, ms] of Object.entries(cases)) t.equal(parseDuration(text), ms, text);
  for (const text of [
    '',
    '5',
    's',
    '-5s',
    '+5s',
    '5 s',
    '1h 30m',
    '5x',
    '5S',
    '1e3s',
    '5s5',
    '1..5s',
    '9'.repeat(70),
    `${'9'.repeat(60)}d1`,
  ]) {
    t.equal(parseDuration(text), undefined, JSON.stringify(text));
  }
});

t.test('the nearest name is a plausible slip, not just any name', async (t) => {
  const names = ['GW_PORT', 'GW_HOST', 'GW_DATA_DIR'];
  t.equal(nearestName('GW_PROT', names), 'GW_PORT');
  t.equal(nearestName('gw_host', names), 'GW_HOST');
  t.equal(nearestName('GW_DATADIR', names), 'GW_DATA_DIR');
  t.equal(nearestName('project', ['project_id', 'account_id', 'labels.<key>']), 'project_id', 'the only one that begins so');
  t.equal(nearestName('Monday', ['mon', 'tue']), 'mon', 'the only one that it begins with');
  t.equal(nearestName('action', ['action.type', 'action.method']), undefined, 'two begin so');
  t.equal(nearestName('to', ['tomorrow']), undefined, 'too short to tell');
  t.equal(nearestName('COMPLETELY_ELSE', names), undefined);
  t.equal(nearestName('x'.repeat(100_000), names), undefined);
});

t.test('the package is found from the compiled files', async (t) => {
  t.ok(existsSync(join(packageRoot(), 'package.json')));
  t.match(packageVersion(), /^\d+\.\d+\.\d+/);
});

t.test('a cache forgets what was not used for longest', async (t) => {
  const gone: number[] = [];
  const lru = new Lru<string, number>({ max: 2, onGone: (value) => gone.push(value) });
  lru.set('a', 1);
  lru.set('b', 2);
  t.equal(lru.get('a'), 1);
  lru.set('c', 3);
  t.same([lru.get('b'), lru.peek('a'), lru.has('c'), lru.size], [undefined, 1, true, 2]);
  t.ok(lru.delete('a'));
  lru.clear();
  t.same(gone, [2, 1, 3]);
});

t.test('a cache bounds the sum of sizes and lets entries expire by the given clock', async (t) => {
  const sized = new Lru<string, string>({ max: 10, size: { max: 5, sizeOf: (text) => text.length } });
  sized.set('a', 'xxx');
  sized.set('b', 'yyy');
  sized.set('c', 'zzzzzzzz');
  t.same([...sized.entries()], [['b', 'yyy']]);
  const clock = fakeClock();
  const timed = new Lru<string, number>({ max: 10, ttl: { ms: 1000, clock } });
  timed.set('a', 1);
  clock.advance(999);
  t.equal(timed.get('a'), 1);
  clock.advance(2);
  t.equal(timed.get('a'), undefined, 'reading did not renew it');
});

t.test('a regular expression is linear: what blows up a backtracking engine does not', async (t) => {
  t.ok(compileRegex('^gpt-4(o|\\.1)').test('gpt-4o-mini'));
  t.notOk(compileRegex('^gpt-4$').test('gpt-4o'));
  t.ok(compileRegex('claude').test('my-claude-3'), 'unanchored');
  t.notOk(compileRegex('^(a+)+$').test(`${'a'.repeat(20_000)}!`));
  for (const bad of [
    '(',
    'a(?=b)',
    '(a)\\1',
    '(a{1000}){1000}',
    '((a{100}){100}){100}',
    '['.repeat(2000),
    '('.repeat(1000) + ')'.repeat(1000),
    '*',
  ]) {
    t.throws(() => compileRegex(bad), { name: 'RegexSyntaxError' }, bad.slice(0, 30));
  }
});

t.test('text is well-formed, or is made so', async (t) => {
  t.ok(isWellFormed('\u{1f600}'));
  t.notOk(isWellFormed('a\ud83d'));
  t.equal(toWellFormed('a\ud83db'), 'a\ufffdb');
});

t.test('a log line is one JSON object with its level in words; lower levels are not written', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => lines.push(line) } });
  log.debug({}, 'unseen');
  log.child({ node_id: 'n1' }).warn({ err: new Error('broken\nline'), port: 7080 }, 'first\nsecond');
  log.flush();
  t.equal(lines.length, 1);
  t.equal(lines[0]?.split('\n').length, 2, 'one line and its end');
  const parsed: unknown = JSON.parse(lines[0] ?? '');
  t.match(parsed, {
    level: 'warn',
    node_id: 'n1',
    port: 7080,
    msg: 'first\nsecond',
    err: { message: 'broken\nline' },
    time: /^\d{4}-\d\d-\d\dT/,
  });
  t.ok(log.isLevelEnabled('error'));
  t.notOk(silentLogger.isLevelEnabled('error'));
});

t.test('a log line says what JSON says of its fields, whatever these are, and what JSON cannot say as well', (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const told = (fields: object, logger = log): unknown => {
    logger.info(fields, 'a "message"\u001b');
    const line = lines.pop() ?? '';
    t.ok(/^[^\p{Cc}]+\}\n$/u.test(line), line);
    const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
    t.match([level, time, msg], ['info', /^\d{4}-.*Z$/, 'a "message"\u001b']);
    return rest;
  };
  const value = fc.oneof(fc.jsonValue(), fc.string({ unit: 'binary' }), fc.double(), fc.constant(undefined));
  const name = fc.string().filter((one) => !['err', 'error', 'level', 'time', 'msg', '__proto__', 'toJSON'].includes(one));
  fc.assert(
    fc.property(fc.dictionary(name, value), (fields) => {
      t.strictSame(told(fields), JSON.parse(JSON.stringify(fields)));
    }),
    { numRuns: 300 },
  );
  t.strictSame(told({}), {});
  t.strictSame(told({ b: 1 }, log.child({ part: 'x' })), { part: 'x', b: 1 });
  t.strictSame(told({ error: 'a_code', b: undefined }), { error: 'a_code' });
  t.match(told({ err: new TypeError('no'), a: 1 }), { err: { type: 'TypeError', message: 'no' }, a: 1 });
  t.match(told({ error: new TypeError('no') }), { error: { type: 'TypeError' } });
  const circle: Record<string, unknown> = { a: 1 };
  circle['self'] = circle;
  t.strictSame(told({ n: 1n }), { n: 1 });
  t.match(told({ circle, b: 2 }), { circle: { a: 1 }, b: 2 });
  t.end();
});

t.test('a log line of an error holds no more of it than people read', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => lines.push(line) } });
  const cause = Object.assign(new Error('x'.repeat(1_000_000)), {
    code: 'ECODE',
    rawPacket: Buffer.alloc(60_000),
    data: 'x'.repeat(60_000),
  });
  log.error({ err: cause }, 'broken');
  log.error({ err: 'x'.repeat(1_000_000) }, 'thrown');
  t.match(JSON.parse(lines[0] ?? ''), { err: { type: 'Error', code: 'ECODE', message: /^x+…$/, stack: /^Error: x+…$/ } });
  for (const { length } of lines) t.ok(length < 20_000, `${length} characters`);
});

t.test('a text is shortened to its beginning, well-formed, and says so', async (t) => {
  t.equal(shorten('a'.repeat(60)), 'a'.repeat(60));
  t.equal(shorten('a'.repeat(61)), `${'a'.repeat(60)}…`);
  t.equal(shorten('ab\u{1f600}', 3), 'ab\ufffd…', 'half a character is none');
});

t.test('an error is short, whatever it quotes, unless it is about what an operator wrote', async (t) => {
  const details = Array.from({ length: 1_000 }, (_, n) => ({ path: `${n}${'p'.repeat(10_000)}`, message: 'm'.repeat(10_000), line: n }));
  const error = new GatewayError('invalid_request', 'x'.repeat(1_000_000), { details });
  t.ok(JSON.stringify(error.toBody()).length < 65_536);
  t.equal(error.details?.length, 50);
  t.match(error.details?.[0], { path: /^0p{127}…$/, line: 0 });
  const verbose = new GatewayError('invalid_policy', 'x'.repeat(10_000), { details, verbose: true });
  t.equal(verbose.message.length, 10_000);
  t.same(verbose.details, details);
});

// Holds: linear-time
t.test('names that are remembered hold nothing of the heads that they came with', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const names = new KnownNames<string>();
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < 2_000; n += 1) {
    const head = Buffer.from(`x-a-name-of-its-own-${n}: ${'v'.repeat(60_000)}`).toString('latin1');
    const name = head.slice(0, head.indexOf(':'));
    names.learn(name, (own) => own.toLowerCase());
  }
  collect();
  const held = process.memoryUsage().heapUsed - before;
  t.ok(held < 20_000_000, `${held} bytes are held of 120 MB`);
  t.equal(names.found.get('x-a-name-of-its-own-7'), 'x-a-name-of-its-own-7');
  for (let n = 0; n < 3_000; n += 1) names.learn(`n${n}`, (own) => own);
  t.equal(names.found.get('x-a-name-of-its-own-7'), undefined, 'made-up names cannot fill it for good');
  t.equal(names.learn('n'.repeat(65), (own) => own).length, 65);
  t.equal(names.found.get('n'.repeat(65)), undefined, 'a long name is not remembered');
});

t.test('a line of JSON has what a terminal would obey or not show as escapes: the same values', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => lines.push(line) } });
  log.child({ node_id: HOSTILE }).info({ model: HOSTILE, deep: [HOSTILE], name: 'Tiếng Việt' }, HOSTILE);
  t.match(JSON.parse(lines[0] ?? ''), { node_id: HOSTILE, model: HOSTILE, deep: [HOSTILE], msg: HOSTILE });
  t.same(hiddenIn(lines[0] ?? '\u202e'), []);
  t.match(lines[0], /Tiếng Việt/);
});

t.test('the pretty form is for people', async (t) => {
  const lines: string[] = [];
  createLogger({ level: 'info', format: 'pretty', destination: { write: (line: string) => lines.push(line) } }).info(
    { port: 7080 },
    'listening',
  );
  t.match(lines.join(''), /INFO: listening\n.*port: 7080/s);
});

t.test('the pretty form shows what strangers chose, and fakes no line', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'pretty', destination: { write: (line: string) => lines.push(line) } });
  const error = Object.assign(new Error(HOSTILE), { code: HOSTILE });
  log.info({ model: HOSTILE, deep: { reason: [HOSTILE] }, name: HOSTILE, err: error, error }, HOSTILE);
  t.match(lines.join(''), 'exe.txt');
  t.same(fakedIn(lines.join('')), []);
});

t.test('Basic credentials are read by RFC 7617, malformed ones are none', async (t) => {
  const basic = (text: string | Buffer): string => `Basic ${Buffer.from(text).toString('base64')}`;
  t.strictSame(parseBasic(basic('a:b')), { user: 'a', password: 'b' });
  t.strictSame(parseBasic(basic(':')), { user: '', password: '' });
  t.strictSame(parseBasic(basic(':gwk_1')), { user: '', password: 'gwk_1' });
  t.strictSame(parseBasic(basic('ü:p:q').replace('Basic', 'bAsIc  ')), { user: 'ü', password: 'p:q' });
  t.strictSame(parseBasic(basic(Buffer.from('ü:p', 'latin1'))), { user: 'ü', password: 'p' });
  const malformed = [
    undefined,
    '',
    'Basic',
    'Basic  ',
    basic('nocolon'),
    'Basic a b',
    'Basic !!!',
    'Bearer abc',
    `Basic ${'A'.repeat(10_000)}`,
  ];
  for (const value of malformed) t.equal(parseBasic(value), undefined, String(value).slice(0, 20));
});
