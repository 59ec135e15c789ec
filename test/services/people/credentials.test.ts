// Each org has ids of credentials of its own, in new stores and in those that had one space of ids for all orgs.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import { type CredentialChange, CredentialService } from '../../../src/services/people/credentials.ts';
import { secretContext } from '../../../src/services/registers/org-key.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

async function scene(t: HasTeardown) {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: runningClock, log: silentLogger });
  t.teardown(() => store.close());
  const box = new SecretBox([randomBytes(32)]);
  const open = () =>
    CredentialService.open({ store, box, clock: runningClock, log: silentLogger, nodeId: 'node-1', environment: () => undefined });
  return { store, box, open };
}

const change = (over: Partial<CredentialChange>): CredentialChange => ({
  credential_id: 'main',
  connector_id: 'openai',
  mode: 'alias',
  ...over,
});
const ids = (list: readonly { readonly credential_id: string; readonly org_id?: string }[]) =>
  list.map(({ credential_id: id, org_id: org }) => [org, id]);

t.test('two orgs have a credential of one id each, and the secret of one goes into no call of the other', async (t) => {
  const credentials = await (await scene(t)).open();
  await credentials.put(change({ org_id: 'acme', secret_ref: 'sk-acme' }));
  await credentials.put(change({ org_id: 'globex', secret_ref: 'sk-globex' }));
  t.same(
    ['acme', 'globex', 'other'].map((org) => credentials.secretOf(org, 'main')),
    ['sk-acme', 'sk-globex', undefined],
  );
  t.same(
    ['acme', 'globex', 'other'].map((org) => credentials.isStored(org, 'main')),
    [true, true, false],
  );
  t.same(
    ['acme', 'globex', 'other'].map((org) => ids(credentials.usable(org, 'openai'))),
    [[['acme', 'main']], [['globex', 'main']], []],
  );
  t.throws(() => credentials.named('main', undefined), { code: 'conflict', message: /org_id/ });
  await t.rejects(credentials.put(change({ name: 'which?' })), { code: 'conflict' });
  await credentials.put(change({ org_id: 'acme', name: 'renamed' }));
  t.match([credentials.get('acme', 'main'), credentials.get('globex', 'main')], [{ name: 'renamed' }, { name: undefined }]);
  t.equal(credentials.secretOf('acme', 'main'), 'sk-acme', 'a secret that is left out stays');
  await credentials.remove({ org_id: 'acme', credential_id: 'main' });
  t.same([credentials.secretOf('acme', 'main'), credentials.secretOf('globex', 'main')], [undefined, 'sk-globex']);
  await credentials.put(change({ name: 'the only one' }));
  t.match(credentials.list(), [{ org_id: 'globex', name: 'the only one' }], 'who names no org means the one that is there');
});

t.test('an own credential goes before one of every org, which becomes that of an org with its secret', async (t) => {
  const credentials = await (await scene(t)).open();
  await credentials.put(change({ org_id: 'acme', secret_ref: 'sk-acme' }));
  await credentials.put(change({ secret_ref: 'sk-all' }));
  t.same([credentials.secretOf('acme', 'main'), credentials.secretOf('globex', 'main')], ['sk-acme', 'sk-all']);
  t.same(ids(credentials.usable('acme', 'openai')), [['acme', 'main']]);
  t.same(ids(credentials.usableBy('acme')), [['acme', 'main']]);
  await credentials.put(change({ org_id: 'globex' }));
  t.same([credentials.secretOf('globex', 'main'), credentials.secretOf('other', 'main')], ['sk-all', undefined]);
  t.same(ids(credentials.list()).sort(), [
    ['acme', 'main'],
    ['globex', 'main'],
  ]);
});

t.test('a store of one space of ids is brought to the new keys once, with its secrets', async (t) => {
  const { store, box, open } = await scene(t);
  const stored = (over: object, secret: string) => ({
    credential: { ...change({}), type: 'ai_provider', distribution: 'org_wide', created_at: 'x', updated_at: 'x', ...over },
    sealed: box.seal(secret, secretContext('main')),
  });
  const put = (key: string, value: unknown) => ({ op: 'put' as const, space: 'credential', key, value });
  await store.commit(undefined, [
    put('main', stored({ org_id: 'acme' }, 'sk-acme')),
    put('shared', { ...stored({ credential_id: 'shared' }, ''), sealed: box.seal('sk-all', secretContext('shared')) }),
  ]);
  for (let starts = 0; starts < 2; starts++) {
    const credentials = await open();
    t.same([credentials.secretOf('acme', 'main'), credentials.secretOf('acme', 'shared')], ['sk-acme', 'sk-all']);
    t.equal(credentials.secretOf('globex', 'main'), undefined);
    const rows = await store.list('credential');
    t.same(rows.map(({ key }) => key).sort(), ['acme main', 'shared']);
    // As `gw secrets rotate` opens them.
    for (const { key, value } of rows) t.ok(box.open((value as ReturnType<typeof stored>).sealed, secretContext(key)));
  }
});
