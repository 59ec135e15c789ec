import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { certificatesIn } from '../../base/lib/pem.ts';
import { findProgram } from './run-program.ts';
import { derOf, type Entry, type Machine, NAME, ROOT_FILE, runOn, type TrustPlace } from './trust-place.ts';

/** Where browsers keep NSS databases, below the home of a user: the folder itself, or those in it. */
const ROWS: readonly (readonly [folder: string, which: 'itself' | 'each', covers: string])[] = [
  ['.pki/nssdb', 'itself', 'Chromium, Chrome, Edge, Brave and VS Code on Linux'],
  ['snap/chromium/current/.pki/nssdb', 'itself', 'Chromium as a snap'],
  ['.var/app/org.chromium.Chromium/.pki/nssdb', 'itself', 'Chromium as a flatpak'],
  ['.mozilla/firefox', 'each', 'Firefox'],
  ['snap/firefox/common/.mozilla/firefox', 'each', 'Firefox as a snap'],
  ['.var/app/org.mozilla.firefox/.mozilla/firefox', 'each', 'Firefox as a flatpak'],
  ['Library/Application Support/Firefox/Profiles', 'each', 'Firefox on macOS'],
];
/** Of its lists: nickname, then three groups of flags. */
const LINE = /^(.*?)\s+([a-zA-Z]*),([a-zA-Z]*),([a-zA-Z]*)$/;

/** The NSS databases of this user's browsers. A system below a folder has no users. */
export function nssStores(machine: Machine): readonly TrustPlace[] {
  if (machine.root !== '') return [];
  return ROWS.flatMap(([path, which, covers]) => {
    const folder = join(machine.home, path);
    const databases = which === 'itself' ? [folder] : foldersIn(folder);
    return databases.filter((one) => existsSync(join(one, 'cert9.db'))).map((one) => nssPlace(one, covers, machine));
  });
}

function foldersIn(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name));
}

function nssPlace(folder: string, covers: string, machine: Machine): TrustPlace {
  const certutil = findProgram('certutil', machine.env);
  const base = [certutil ?? 'certutil', '-d', `sql:${folder}`];
  const ask = (...args: readonly string[]) => runOn(machine, certutil ?? 'certutil', ['-d', `sql:${folder}`, ...args]);
  const listed = async (): Promise<readonly { readonly entry: Entry; readonly trusted: boolean }[]> => {
    const lines = (await ask('-L')).stdout.split('\n').flatMap((line) => LINE.exec(line.trimEnd()) ?? []);
    const found: { entry: Entry; trusted: boolean }[] = [];
    for (let at = 0; at + 4 < lines.length; at += 5) {
      const [name = '', flags = ''] = [lines[at + 1], lines[at + 2]];
      if (!name.startsWith(NAME)) continue;
      const pem = certificatesIn((await ask('-L', '-n', name, '-a')).stdout);
      for (const der of pem.map(derOf)) found.push({ entry: { name, der }, trusted: flags.includes('C') });
    }
    return found;
  };
  return {
    store: 'nss',
    where: folder,
    covers,
    lacks: certutil === undefined ? 'certutil is not there: install the package libnss3-tools (nss-tools on Fedora)' : undefined,
    guard: join(folder, 'cert9.db'),
    entries: async () => (await listed()).map(({ entry }) => entry),
    trusts: async (root) => (await listed()).some(({ entry, trusted }) => trusted && entry.der.equals(root)),
    add: (name) => [{ run: [...base, '-A', '-t', 'C,,', '-n', name, '-i', ROOT_FILE] }],
    remove: ({ name }) => [{ run: [...base, '-D', '-n', name] }],
  };
}
