import { open, readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { codeOf } from '../../base/lib/gateway-error.ts';

/** In the data folder: for each start of a node on it a line before the database is told, and one behind that. */
const FILE = 'node-claims';
const LINE = /^(claims|claimed) ([0-9a-f-]{36})$/;

/** On which machine, and under which path, a folder is. */
export function placeOfFolder(dataDir: string): string {
  return `${hostname()}:${resolve(dataDir)}`;
}

/**
 * The names under which a data folder has stood behind a node, one for each start. The database knows the last of them:
 * a folder that does not know that one was copied before, or is another.
 */
export class FolderClaims {
  readonly #file: string;
  /** Of the starts before this one, oldest first, whether the database has taken them or not. */
  readonly known: readonly string[];
  /** The database has taken one of them: what the journal has was, or will be, carried there. */
  readonly hasHistory: boolean;

  private constructor(file: string, text: string) {
    this.#file = file;
    // A line that was cut by a crash was never given to the database.
    const found = text.split('\n').flatMap((line) => {
      const [, state, name] = LINE.exec(line) ?? [];
      return name === undefined ? [] : [{ state, name }];
    });
    this.known = [...new Set(found.map(({ name }) => name))];
    this.hasHistory = found.some(({ state }) => state === 'claimed');
  }

  /** @throws the system's error when the folder cannot be read */
  static async read(dataDir: string): Promise<FolderClaims> {
    const file = resolve(dataDir, FILE);
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
      return '';
    });
    return new FolderClaims(file, text);
  }

  /** Notes a name before the database is told of it. @throws the system's error */
  claims(incarnation: string): Promise<void> {
    return this.#append(`claims ${incarnation}`);
  }

  /** The database has taken the name. @throws the system's error */
  claimed(incarnation: string): Promise<void> {
    return this.#append(`claimed ${incarnation}`);
  }

  /** On the medium before it resolves. */
  async #append(line: string): Promise<void> {
    const handle = await open(this.#file, 'a', 0o600);
    try {
      await handle.appendFile(`\n${line}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
