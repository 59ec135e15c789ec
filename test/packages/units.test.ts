// The units, as systemd's own tools judge them without running them, and the scripts that install and remove them,
// below a folder of the test.
import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { bareEnvironment, type Ended, run } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { isSetting, projectFile } from './manifests.ts';

const systemd = join(packageRoot(), 'systemd');
const SERVICE = 'ai-request-gateway.service';
const SOCKET = 'ai-request-gateway.socket';

function analyze(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(requirePeer('systemd-analyze'), args, { encoding: 'utf8' });
}

/** What `verify` says of our units; it speaks of the machine's own ones too. */
function verified(files: readonly string[]): string {
  const { stderr } = analyze('verify', ...files);
  return stderr
    .split('\n')
    .filter((line) => line.includes('ai-request-gateway'))
    .join('\n');
}

function script(t: Test, name: string, dest: string, args: readonly string[] = []): Promise<Ended> {
  return run(t, 'sh', [join(systemd, name), ...args], { env: { ...bareEnvironment(), DESTDIR: dest } });
}

/** Every file and folder below a folder, with the content of files. */
function snapshot(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => (statSync(join(folder, name)).isFile() ? `${name}: ${readFileSync(join(folder, name), 'utf8')}` : name))
    .sort();
}

/** By scripts that shells of all kinds take. */
const INSTALL = ['--node', process.execPath];

t.test('systemd accepts the units', { skip: skipWithout(['systemd-analyze']) }, async (t) => {
  t.equal(verified([join(systemd, SERVICE), join(systemd, SOCKET)]), '');
});

t.test('the service is exposed at 1.5 or less', { skip: skipWithout(['systemd-analyze']) }, async (t) => {
  const { status, stdout } = analyze('security', '--offline=true', '--threshold=15', join(systemd, SERVICE));
  t.equal(status, 0, stdout);
});

t.test('every variable of the unit is a setting', async (t) => {
  const names = [...projectFile(`systemd/${SERVICE}`).matchAll(/^Environment=(GW_\w+)=/gm)].map(([, name = '']) => name);
  t.ok(names.length >= 4);
  for (const name of names) t.ok(isSetting(name), name);
});

t.test('streams may end before systemd loses patience', async (t) => {
  const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(projectFile(`systemd/${SERVICE}`))?.[1]);
  t.ok(seconds > 30);
});

t.test(
  'install puts units, settings and policy in place, with the programs by their paths',
  { skip: skipWithout(['coreutils']) },
  async (t) => {
    const dest = tempDir(t);
    const { code, stderr } = await script(t, 'install.sh', dest, INSTALL);
    t.equal(code, 0, stderr);
    const unit = join(dest, 'etc/systemd/system', SERVICE);
    t.match(readFileSync(unit, 'utf8'), `ExecStart=${process.execPath} ${join(packageRoot(), 'build/src/main.js')} start\n`);
    t.equal(statSync(join(dest, 'etc/ai-request-gateway/environment')).mode & 0o777, 0o600);
    t.ok(existsSync(join(dest, 'etc/ai-request-gateway/policies/bundle.yaml')));
    if (skipWithout(['systemd-analyze']) === false) {
      const files = [unit, join(dest, 'etc/systemd/system', SOCKET)];
      t.equal(verified(files), '');
      t.equal(analyze('security', '--offline=true', '--threshold=15', unit).status, 0);
    }
  },
);

t.test('a secret can come as a credential, as the unit says', { skip: skipWithout(['systemd-analyze']) }, async (t) => {
  const dest = tempDir(t);
  await script(t, 'install.sh', dest, INSTALL);
  const unit = join(dest, 'etc/systemd/system', SERVICE);
  const shown = /^# {3}\[Service\]\n# {3}(LoadCredential=.*)\n# {3}(Environment=.*)$/m.exec(readFileSync(unit, 'utf8'));
  mkdirSync(`${unit}.d`);
  writeFileSync(join(`${unit}.d`, 'secrets.conf'), `[Service]\n${shown?.[1]}\n${shown?.[2]}\n`);
  t.equal(verified([unit, join(dest, 'etc/systemd/system', SOCKET)]), '');
});

t.test('installing again changes nothing, and keeps what was changed', { skip: skipWithout(['coreutils']) }, async (t) => {
  const dest = tempDir(t);
  await script(t, 'install.sh', dest, INSTALL);
  const before = snapshot(dest);
  t.equal((await script(t, 'install.sh', dest, INSTALL)).code, 0);
  t.strictSame(snapshot(dest), before);
  appendFileSync(join(dest, 'etc/ai-request-gateway/environment'), 'GW_PORT=8080\n');
  await script(t, 'install.sh', dest, INSTALL);
  t.match(readFileSync(join(dest, 'etc/ai-request-gateway/environment'), 'utf8'), /GW_PORT=8080/);
});

t.test('without the socket unit the service does not wait for one', { skip: skipWithout(['coreutils']) }, async (t) => {
  const dest = tempDir(t);
  t.equal((await script(t, 'install.sh', dest, [...INSTALL, '--no-socket'])).code, 0);
  t.strictSame(readdirSync(join(dest, 'etc/systemd/system')), [SERVICE]);
  t.notMatch(readFileSync(join(dest, 'etc/systemd/system', SERVICE), 'utf8'), /^(After|Wants)=.*\.socket/m);
});

t.test('uninstall leaves nothing of what install made', { skip: skipWithout(['coreutils']) }, async (t) => {
  const dest = tempDir(t);
  await script(t, 'install.sh', dest, INSTALL);
  const { code, stderr } = await script(t, 'uninstall.sh', dest);
  t.equal(code, 0, stderr);
  t.strictSame(
    snapshot(dest).filter((name) => name !== 'etc'),
    [],
  );
  t.equal((await script(t, 'uninstall.sh', dest)).code, 0);
});

t.test('uninstall keeps data, and what people have changed, until it is told to purge', { skip: skipWithout(['coreutils']) }, async (t) => {
  const dest = tempDir(t);
  await script(t, 'install.sh', dest, INSTALL);
  const environment = join(dest, 'etc/ai-request-gateway/environment');
  const data = join(dest, 'var/lib/private/ai-request-gateway/data');
  const dropIn = join(dest, 'etc/systemd/system', `${SERVICE}.d`);
  appendFileSync(environment, 'GW_PORT=8080\n');
  mkdirSync(data, { recursive: true });
  mkdirSync(dropIn);
  const kept = await script(t, 'uninstall.sh', dest);
  t.match(kept.stdout, /^kept .*etc\/ai-request-gateway$/m);
  for (const path of [environment, data, dropIn]) t.ok(existsSync(path), path);
  t.equal(existsSync(join(dest, 'etc/systemd/system', SERVICE)), false);
  t.equal((await script(t, 'uninstall.sh', dest, ['--purge'])).code, 0);
  for (const path of [environment, data, dropIn]) t.notOk(existsSync(path), path);
});

t.test('what cannot work is refused before anything is written', { skip: skipWithout(['coreutils']) }, async (t) => {
  const dest = tempDir(t);
  t.match(await script(t, 'install.sh', dest, ['--node', '/nowhere/node']), { code: 1, stderr: /no program/ });
  t.match(await script(t, 'install.sh', dest, ['--force']), { code: 2 });
  t.match(await script(t, 'uninstall.sh', dest, ['--all']), { code: 2 });
  const unbuilt = tempDir(t);
  cpSync(systemd, join(unbuilt, 'systemd'), { recursive: true });
  const { code, stderr } = await run(t, 'sh', [join(unbuilt, 'systemd/install.sh')], { env: { ...bareEnvironment(), DESTDIR: dest } });
  t.equal(code, 1);
  t.match(stderr, /npm run build/);
  t.strictSame(readdirSync(dest), []);
});

t.test('shellcheck has nothing to say of the scripts', { skip: skipWithout(['shellcheck']) }, async (t) => {
  const scripts = ['install.sh', 'uninstall.sh'].map((name) => join(systemd, name));
  const { status, stdout } = spawnSync(requirePeer('shellcheck'), scripts, { encoding: 'utf8' });
  t.equal(status, 0, stdout);
});
