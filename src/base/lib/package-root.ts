import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PACKAGE_NAME = 'ai-request-gateway';
let found: string | undefined;

/**
 * The folder of this package's package.json, from wherever the compiled files lie (in a clone, in a build folder, under
 * node_modules).
 * @throws Error when there is none above this file
 */
export function packageRoot(): string {
  found ??= findRoot(dirname(fileURLToPath(import.meta.url)));
  return found;
}

/** Version text of the package. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  return typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : '0.0.0';
}

/** The commit that it was compiled from, 40 digits; undefined where the compiler could not tell (scripts/setup.mjs). */
export function packageCommit(): string | undefined {
  let text: string;
  try {
    text = readFileSync(join(packageRoot(), 'build', 'version.json'), 'utf8');
  } catch {
    return undefined;
  }
  const version: unknown = JSON.parse(text);
  return typeof version === 'object' && version !== null && 'commit' in version ? String(version.commit) : undefined;
}

function findRoot(start: string): string {
  for (let folder = start; ; folder = dirname(folder)) {
    if (isOurs(join(folder, 'package.json'))) return folder;
    if (dirname(folder) === folder) throw new Error(`no package.json of ${PACKAGE_NAME} above ${start}`);
  }
}

function isOurs(file: string): boolean {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return false;
  }
  const manifest: unknown = JSON.parse(text);
  return typeof manifest === 'object' && manifest !== null && 'name' in manifest && manifest.name === PACKAGE_NAME;
}
