/* Which commit a tree is of, read from its .git without git, which an image is built without. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** @returns its 40 digits, or undefined where nothing says it */
export function checkedOutCommit(root) {
  const folder = gitFolder(join(root, '.git'));
  const head = textOf(join(folder, 'HEAD'));
  const ref = /^ref: (\S+)$/.exec(head)?.[1];
  const commit = ref === undefined ? head : commitOf(ref, folder);
  return /^[0-9a-f]{40}$/.test(commit) ? commit : undefined;
}

/** In a worktree `.git` is a file that names another folder. */
function gitFolder(path) {
  const named = /^gitdir: (.+)$/.exec(textOf(path))?.[1];
  return named === undefined ? path : resolve(path, '..', named);
}

/** A worktree has its branches in the folder that all of them share. */
function commitOf(ref, folder) {
  const common = resolve(folder, textOf(join(folder, 'commondir')) || '.');
  const packed = textOf(join(common, 'packed-refs')).split('\n');
  return textOf(join(folder, ref)) || textOf(join(common, ref)) || (packed.find((line) => line.endsWith(` ${ref}`))?.slice(0, 40) ?? '');
}

function textOf(file) {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
