import { chmodSync, mkdirSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { folderError, inFolder, makeFolder } from '../../../src/base/lib/file-system.ts';
import { tempDir } from '../../support/temp-dir.ts';

t.test('a folder is made with all above it, and left alone when it is there', async (t) => {
  const root = tempDir(t);
  const dir = join(root, 'a', 'b', 'c');
  await Promise.all([makeFolder(dir, 0o700), makeFolder(dir, 0o700), makeFolder(join(root, 'a', 'x'), 0o700)]);
  for (const path of [dir, join(root, 'a')]) t.equal(statSync(path).mode & 0o777, 0o700);
  chmodSync(dir, 0o755);
  await makeFolder(dir, 0o700);
  t.equal(statSync(dir).mode & 0o777, 0o755);
  symlinkSync(dir, join(root, 'link'));
  await makeFolder(join(root, 'link'), 0o700);
  await makeFolder('/', 0o700);
  symlinkSync(join(root, 'nowhere'), join(root, 'dangling'));
  await t.rejects(makeFolder(join(root, 'dangling'), 0o700), { code: 'EEXIST' });
});

t.test('where this user may not make one, that is said', async (t) => {
  const closed = join(tempDir(t), 'closed');
  mkdirSync(closed, { mode: 0o500 });
  // Root may do anything, so that it has to be somebody else for a moment.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    await t.rejects(
      inFolder('GW_X_DIR', join(closed, 'x'), () => makeFolder(join(closed, 'x'), 0o700)),
      { message: new RegExp(`^GW_X_DIR: the folder ${closed}/x cannot be used: this user may not read or write there \\(EACCES: `) },
    );
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

t.test('an error of the system names setting, folder and reason; any other stays as it is', (t) => {
  const thrown = (code: string) => Object.assign(new Error(`${code}: so it is, write`), { code });
  const reasons = { ENOSPC: 'the disk is full', EROFS: 'it is on a file system that can only be read', EIO: 'the disk fails' };
  for (const [code, reason] of Object.entries(reasons)) {
    const cause = thrown(code);
    t.match(folderError('GW_X_DIR', '/x', cause), {
      message: `GW_X_DIR: the folder /x cannot be used: ${reason} (${code}: so it is, write)`,
      cause,
    });
  }
  for (const other of [new TypeError('x'), thrown('EWHAT'), 'text', undefined]) t.equal(folderError('GW_X_DIR', '/x', other), other);
  t.end();
});
