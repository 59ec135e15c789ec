// What commands print arrives whole, or the failure is told.
import { existsSync } from 'node:fs';
import { Writable } from 'node:stream';
import t from 'tap';
import { StandardOutput, wholeOutput } from '../../src/cli/standard-output.ts';
import { launch, run } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';

const GW_MCP = MAIN.replace(/main\.js$/, 'mcp-main.js');

/** A disk with room for so many bytes. */
function disk(room: number) {
  let text = '';
  const write = (_fd: number, bytes: Uint8Array, at: number): number => {
    const taken = Math.min(room - text.length, bytes.length - at);
    if (taken === 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    text += Buffer.from(bytes.subarray(at, at + taken)).toString('latin1');
    return taken;
  };
  return { write, written: () => text };
}

/** Of a file: neither a pipe nor a terminal. */
const FILE = new Writable();

t.test('a part that was written is not taken for the whole', async (t) => {
  const told: string[] = [];
  const full = disk(10);
  const output = new StandardOutput(wholeOutput(FILE, full.write));
  output.write('12345678');
  await output.written();
  output.write('9abcdef');
  await t.rejects(output.written(), { name: 'OutputLost' });
  output.write('never');
  t.equal(await output.end(0, (text) => told.push(text)), 2);
  t.equal(full.written(), '123456789a');
  t.match(told, [/^standard output cannot be written \(ENOSPC.*\): what was printed is not whole$/]);
  t.equal(await output.end(1, () => undefined), 1, 'a code that says no goes on to say so');
});

t.test('a disk with room enough takes everything, and nobody is told anything', async (t) => {
  const roomy = disk(1_000);
  const output = new StandardOutput(wholeOutput(FILE, roomy.write));
  for (const part of ['a', 'bc', 'ü']) output.write(part);
  t.equal(await output.end(0, () => t.fail()), 0);
  t.equal(Buffer.from(roomy.written(), 'latin1').toString('utf8'), 'abcü');
});

t.test('a slow reader is waited for', async (t) => {
  const waiting: (() => void)[] = [];
  const output = new StandardOutput(new Writable({ write: (_chunk, _encoding, done) => void waiting.push(done) }));
  output.write('text');
  let isTaken = false;
  const taken = output.written().then(() => {
    isTaken = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  t.notOk(isTaken);
  for (const done of waiting) done();
  await taken;
});

t.test('a reader that has gone is quiet', async (t) => {
  const output = new StandardOutput(
    new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })) }),
  );
  output.write('text');
  await t.rejects(output.written(), { name: 'OutputLost' }, 'so that who prints for long ends');
  t.equal(await output.end(0, () => t.fail()), 0);
});

const WRITING: readonly (readonly string[])[] = [
  ['help', '--json'],
  ['version'],
  ['completion', 'bash'],
  ['env', '--unset', '--json'],
  ['policy', 'check', '--json'],
];

t.test('every command says that a device is full', { skip: !existsSync('/dev/full') }, async (t) => {
  for (const words of WRITING) {
    const { code, stderr } = await run(t, 'sh', ['-c', '"$@" >/dev/full', 'sh', process.execPath, MAIN, ...words]);
    t.not(code, 0, words.join(' '));
    t.match(stderr, /^gw: standard output cannot be written \(ENOSPC.*\): what was printed is not whole$/m, words.join(' '));
    t.notMatch(stderr, /\n {4}at /, 'no stack trace');
  }
  const messages = await run(t, 'sh', ['-c', '"$@" 2>/dev/full', 'sh', process.execPath, MAIN, 'nonsense']);
  t.equal(messages.code, 2, 'messages that nobody can read change no exit code');
});

t.test('a pipe whose reader has gone is quiet, and the code is 0', async (t) => {
  const piped = await run(t, 'sh', ['-c', '{ "$@"; echo "code $?" >&2; } | true', 'sh', process.execPath, MAIN, 'help']);
  t.match(piped, { code: 0, stderr: 'code 0\n', stdout: '' });
});

t.test('gw-mcp says it too', { skip: !existsSync('/dev/full') }, async (t) => {
  const asked = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';
  const command = ['-c', '"$@" >/dev/full', 'sh', process.execPath, GW_MCP, '--gateway-url', 'http://127.0.0.1:9', '--mgk', 'mgk_test'];
  const { code, stderr } = await launch(t, 'sh', command, { input: asked }).ended;
  t.equal(code, 1);
  t.match(stderr, /gw-mcp: standard output cannot be written \(ENOSPC/);
});
