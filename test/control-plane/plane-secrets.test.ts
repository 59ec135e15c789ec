// The key that seals what a control plane stores gets a successor (decision 13.19).
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { type RunningControlPlane, runControlPlane } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const SECRET = 'sk-planted-in-the-control-plane';
const CREDENTIAL = { connector_id: 'openai', mode: 'alias', distribution: 'org_wide', secret_ref: SECRET };
const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
const key = (byte: number) => Buffer.alloc(32, byte);

/** What a gateway would be given. */
async function secretsOf({ plane }: RunningControlPlane): Promise<readonly (string | undefined)[]> {
  const { entities } = plane.state.registers;
  const kinds = ['credentials', 'export-destinations'] as const;
  const pages = await Promise.all(kinds.map((kind) => entities.open('acme', kind, '', 10)));
  return pages.flat().map(({ secret }) => secret);
}

async function filled(running: RunningControlPlane): Promise<void> {
  const { plane, commit } = running;
  await plane.state.orgs.put('acme', {}, commit);
  await plane.state.entities.put('acme', 'credentials', 'one', CREDENTIAL, commit);
  const config = { url: 'https://siem.example/events', token: SECRET };
  await plane.state.entities.put('acme', 'export-destinations', 'siem', { name: 'SIEM', kind: 'webhook', config }, commit);
}

t.test('a key that was made in the folder is replaced there, and a run that was cut off is finished by the next', async (t) => {
  const dataDir = tempDir(t);
  const env = { CP_DATA_DIR: dataDir };
  const file = join(dataDir, 'secrets-key');
  const first = await runControlPlane(t, { clock }, { dataDir, secretsKey: undefined });
  await filled(first);
  const before = await secretsOf(first);
  t.match(before, [SECRET, new RegExp(SECRET)]);
  t.match(await gw(['control-plane', 'secrets', 'rotate'], { env }), {
    code: 1,
    err: /a control plane runs on this data folder; stop it first/,
  });
  await first.plane.stop();
  const old = readFileSync(file, 'utf8');
  t.match(await gw(['control-plane', 'secrets', 'rotate'], { env }), { code: 0, out: '2 secret(s) have a new key.\n' });
  const made = readFileSync(file, 'utf8');
  t.match(made, /^[A-Za-z0-9+/]{43}=\n$/);
  t.not(made, old, 'the older key is gone');
  // Cut off: both keys are in the file, and one of the secrets has the new one already.
  const next = `${key(9).toString('base64')}\n`;
  writeFileSync(file, next + made);
  const half = await runControlPlane(t, { clock }, { dataDir, secretsKey: undefined });
  t.same(await secretsOf(half), before, 'a start in between opens everything');
  await half.plane.state.entities.put('acme', 'credentials', 'one', CREDENTIAL, half.commit);
  await half.plane.stop();
  t.match(await gw(['control-plane', 'secrets', 'rotate', '--json'], { env }), { code: 0, out: /"secrets":2,"set_secrets_key":false/ });
  t.equal(readFileSync(file, 'utf8').trim().split('\n').length, 1);
  const last = await runControlPlane(t, { clock }, { dataDir, secretsKey: undefined });
  t.same(await secretsOf(last), before);
});

t.test('one that is configured is replaced by that of a file, as often as it is tried', async (t) => {
  const dataDir = tempDir(t);
  const running = await runControlPlane(t, { clock }, { dataDir, secretsKey: key(7) });
  await filled(running);
  const before = await secretsOf(running);
  await running.plane.stop();
  const file = join(tempDir(t), 'next');
  writeFileSync(file, key(8).toString('base64'));
  const rotate = (present: Buffer, ...more: string[]) =>
    gw(['control-plane', 'secrets', 'rotate', ...more], { env: { CP_DATA_DIR: dataDir, CP_SECRETS_KEY: present.toString('base64') } });
  t.match(await rotate(key(7)), { code: 2, err: /CP_SECRETS_KEY is set; name a file/ });
  t.match(
    await rotate(key(5), '--new-key-file', file),
    { code: 1, err: /it was sealed with the key [0-9a-f]{16}/ },
    'another key opens nothing',
  );
  t.match(await rotate(key(7), '--new-key-file', file), {
    code: 0,
    out: '2 secret(s) have a new key. Set CP_SECRETS_KEY to the new key before the next start.\n',
  });
  t.match(await rotate(key(7), '--new-key-file', file), { code: 0, out: /^0 secret/ }, 'nothing is left to do');
  const again = await runControlPlane(t, { clock }, { dataDir, secretsKey: key(8) });
  t.same(await secretsOf(again), before);
  await again.plane.stop();
  const store = await openEmbeddedStore({ dir: join(dataDir, 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const spaces = ['cp_credential', 'cp_export_destination'];
  const sealed = (await Promise.all(spaces.map((space) => store.list(space))))
    .flat()
    .map(({ value }) => (value as { sealed: { kid: string } }).sealed.kid);
  t.equal(new Set(sealed).size, 1, 'all of them have one key');
});

t.test('a folder without a control plane is left as it is', async (t) => {
  const env = { CP_DATA_DIR: join(tempDir(t), 'none') };
  t.match(await gw(['control-plane', 'secrets', 'rotate'], { env }), {
    code: 1,
    err: /there is no control plane in .*none \(CP_DATA_DIR\)/,
  });
});
