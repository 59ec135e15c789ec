import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The part of a tap test that clean-up needs. */
export interface HasTeardown {
  teardown(callback: () => unknown): unknown;
}

/** A fresh private folder that is removed when the test ends. */
export function tempDir(t: HasTeardown): string {
  const folder = mkdtempSync(join(tmpdir(), 'gw-test-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}
