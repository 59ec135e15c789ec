/*
 * `npm run nodes [-- 26 …]` runs the tests that depend on Node itself (ports, TLS, HTTP/2, storage, zstd, the start of
 * the commands) with each version that package.json allows but the oldest, which runs all tests. `npm run peers`
 * installs these versions. It ends with the line `N passed, N failed`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { projectRoot, setUp } from './setup.mjs';

const VERSIONS = ['22', '24', '26'];
/** What only computes is the same on each of them, and left out. */
const PATTERNS = [
  'test/inbound/ca',
  'test/inbound/listener',
  'test/outbound/net/answers.test.ts',
  'test/outbound/net/kept-connections.test.ts',
  'test/outbound/net/parent-proxy.test.ts',
  'test/outbound/net/resend.test.ts',
  'test/outbound/net/side-door.test.ts',
  'test/outbound/net/upstream',
  'test/storage/embedded/faults.test.ts',
  'test/storage/embedded/kill.test.ts',
  'test/storage/embedded/recovery.test.ts',
  'test/storage/leaves',
  'test/base/lib/decoder.test.ts',
  'test/cli/cli.test.ts',
  'test/e2e/process.test.ts',
  'test/e2e/signals.test.ts',
  'test/integration/doors.test.ts',
  'test/integration/encoded-requests.test.ts',
  'test/integration/relayed-http2.test.ts',
];

const peersFolder = process.env.AI_REQUEST_GATEWAY_PEERS ?? join(homedir(), '.cache', 'ai-request-gateway', 'peers');
const asked = process.argv.slice(2);
const total = { passed: 0, failed: 0 };

// Compiled once, by this Node.
await setUp();
for (const version of asked.length > 0 ? asked : VERSIONS) {
  const program = join(peersFolder, `node${version}`, 'node');
  if (existsSync(program)) await run(program);
  else {
    process.stdout.write(`skipped: Node ${version} not found, npm run peers installs it\n`);
    if (process.env.CI === 'true') total.failed += 1;
  }
}
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
process.exitCode = total.failed > 0 ? 1 : 0;

async function run(program) {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  process.stdout.write(`--- Node ${stdout.trim()}\n`);
  // Where a test skips on this version alone, that is no reason to fail.
  const env = { ...process.env, CI: 'false' };
  const script = join(projectRoot, 'scripts', 'test.mjs');
  const child = spawn(program, [script, ...PATTERNS], { cwd: projectRoot, env, stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more) => {
    text += more;
    process.stdout.write(more);
  });
  const code = await new Promise((resolve) => {
    child.on('error', () => resolve(1));
    child.on('close', resolve);
  });
  const [, passed = '0', failed = '0'] =
    /^(\d+) passed, (\d+) failed(?:, \d+ skipped)?$/m.exec(text.slice(text.lastIndexOf('\n', text.length - 2) + 1)) ?? [];
  total.passed += Number(passed);
  total.failed += Number(failed);
  if (code !== 0 && failed === '0') total.failed += 1;
}
