// Which driver opens a store: by the scheme of its place.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { openStore } from '../../../src/storage/drivers/open-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

const options = { fsync: 'off', clock: fakeClock(), log: silentLogger } as const;

t.test('a folder and the forms of its URL are one store, which one process has at a time', async (t) => {
  const dir = join(tempDir(t), 'with space');
  for (const place of [dir, pathToFileURL(dir).href, `file:${dir}`, `FILE:${dir}`]) {
    const { store, isShared, sync } = await openStore(place, options);
    await store.commit(undefined, [
      { op: 'put', space: 's', key: 'place', value: [...(((await store.get('s', 'place')) as []) ?? []), place] },
    ]);
    await sync();
    t.equal(isShared, false);
    await t.rejects(openStore(dir, options), { code: 'in_use' });
    await store.close();
  }
  const { store } = await openStore(dir, options);
  t.equal(((await store.get('s', 'place')) as string[]).length, 4, 'each found what the one before had stored');
  await store.close();
});

t.test('a scheme that no driver has is named, without what it hides, and makes nothing', async (t) => {
  const place = 'mysql://user:secret-word@db.example/gateway';
  const message = 'there is no store for mysql: URLs; a folder, or file: and its path, is one, and postgres: and a database';
  await t.rejects(openStore(place, options), { message });
  for (const other of ['Redis://db.example', 'constructor:x', 'x-y+z.1:'])
    await t.rejects(openStore(other, options), { message: /^there is no store for [a-z0-9+.-]+: URLs;/ });
  t.notOk(existsSync('mysql:'));
});

t.test('a file: URL of another machine is none of this one', async (t) => {
  await t.rejects(openStore('file://elsewhere.example/data', options), { code: 'ERR_INVALID_FILE_URL_HOST' });
});
