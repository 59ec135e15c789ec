import { type FileHandle, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../../base/lib/package-root.ts';
import { messageOf } from '../../base/lib/thrown.ts';
import { Unusable } from '../command.ts';

/** What goes into the folder as it is in the package: the page, and the program that checks everything. */
const TEMPLATES = { 'README.md': 'page.md', 'check.py': 'check.py' } as const;

/** Files of lines that grow while something is exported. */
export type EvidenceLines = 'records.ndjson' | 'proofs.ndjson' | 'roots.ndjson';

/** A folder for a third party, written line by line (decision 13.4). */
export class EvidenceFolder {
  readonly #path: string;
  readonly #open = new Map<EvidenceLines, FileHandle>();

  private constructor(path: string) {
    this.#path = path;
  }

  /** @throws Unusable unless the folder is new or empty: what was handed out is not mixed with what is */
  static async create(path: string): Promise<EvidenceFolder> {
    try {
      await mkdir(path, { recursive: true });
      if ((await readdir(path)).length > 0) throw new Error('it is not empty: name a new folder');
      const folder = new EvidenceFolder(path);
      for (const [name, template] of Object.entries(TEMPLATES))
        await folder.write(name, await readFile(join(packageRoot(), 'docs', 'evidence', template), 'utf8'));
      return folder;
    } catch (error) {
      throw new Unusable(`${path}: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Adds whole lines. @param lines without their ends */
  async append(name: EvidenceLines, lines: readonly string[]): Promise<void> {
    let file = this.#open.get(name);
    if (file === undefined) {
      file = await open(join(this.#path, name), 'ax');
      this.#open.set(name, file);
    }
    if (lines.length > 0) await file.appendFile(`${lines.join('\n')}\n`);
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(join(this.#path, name), text, { flag: 'wx' });
  }

  async close(): Promise<void> {
    for (const file of this.#open.values()) {
      await file.sync();
      await file.close();
    }
    this.#open.clear();
  }
}
