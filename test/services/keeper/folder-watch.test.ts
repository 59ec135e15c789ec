import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { FolderWatch } from '../../../src/services/keeper/folder-watch.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

/** Lets what was started on the event loop come to its end. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test(
  'what no event announces is found within half a minute, a folder that is not there is no mistake, and the end is the end',
  async (t) => {
    const clock = fakeClock();
    let looks = 0;
    const watch = new FolderWatch({
      folders: () => [join(tempDir(t), 'gone')],
      onChange: () => {
        looks++;
        return Promise.resolve();
      },
      clock,
      log: silentLogger,
    });
    await settled();
    t.equal(looks, 1, 'once at first: something may have changed since it was loaded');
    clock.advance(29_999);
    await settled();
    t.equal(looks, 1);
    clock.advance(1);
    await settled();
    t.equal(looks, 2);
    await watch.close();
    clock.advance(120_000);
    await settled();
    t.equal(looks, 2);
  },
);

t.test('many events are one look, and those that come during a look are one more', async (t) => {
  const folder = tempDir(t);
  const clock = fakeClock();
  const looking: (() => void)[] = [];
  const watch = new FolderWatch({
    folders: () => [folder],
    onChange: () => new Promise<void>((resolve) => looking.push(resolve)),
    clock,
    log: silentLogger,
  });
  t.equal(looking.length, 1, 'the first look has begun');
  for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, name), 'x');
  while (clock.pending < 2) await settled();
  clock.advance(200);
  clock.advance(30_000);
  t.equal(looking.length, 1, 'never two at once');
  looking[0]?.();
  await settled();
  t.equal(looking.length, 2);
  looking[1]?.();
  await watch.close();
  t.equal(looking.length, 2);
});
