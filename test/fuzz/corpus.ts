import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';

export interface CorpusInput {
  readonly file: string;
  readonly bytes: Buffer;
}

/** The inputs of a target that are kept: samples of its format, and everything that ever broke it. */
export function corpusOf(target: string): readonly CorpusInput[] {
  const folder = join(packageRoot(), 'test', 'cases', 'fuzz', target);
  return readdirSync(folder)
    .filter((file) => !file.startsWith('.'))
    .sort()
    .map((file) => ({ file, bytes: readFileSync(join(folder, file)) }));
}
