import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type CosignedTree, readCosigned } from '../../ledger/watched-chain.ts';
import { Unusable } from '../command.ts';
import { whyUnreadable } from '../process-io.ts';

const DIGITS = 12;
const ENTRY = /^([0-9a-f]{64})\.(\d{12})\.json$/;

/**
 * What the key of a witness has cosigned of each log, in a folder beside it (decision 13.21): numbered files, each of
 * which goes on from the one before. Who has looked at entry n alone can add entry n + 1, and of several processes one
 * can, in whatever containers or machines they are, as long as all see one folder: so a key signs no two histories.
 */
export class CosignedTrees {
  readonly #folder: string;
  /** Number of the last entry of each log when it was looked at. */
  readonly #last: ReadonlyMap<string, number>;

  private constructor(folder: string, last: ReadonlyMap<string, number>) {
    this.#folder = folder;
    this.#last = last;
  }

  /** Makes the folder of a new key. @throws Unusable where there is one already: it is that of another key */
  static async make(keyFile: string): Promise<void> {
    const folder = folderOf(keyFile);
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      throw new Unusable(`${folder}: ${whyUnreadable(error)}`, { cause: error });
    });
  }

  /** As they are now. @throws Unusable where nobody knows what the key has cosigned */
  static async of(keyFile: string): Promise<CosignedTrees> {
    const folder = folderOf(keyFile);
    try {
      return new CosignedTrees(folder, lastOf(await readdir(folder)));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw new Unusable(`${folder} cannot be read: ${messageOf(error)}`, { cause: error });
      throw new Unusable(
        `${folder} is missing, and is the memory of what this key has cosigned: bring back its newest state, or make a new key. For a key that has never cosigned make the folder`,
        { cause: error },
      );
    }
  }

  /** The last that was cosigned of a log; undefined: none was. @throws Unusable when it is damaged */
  async last(origin: string): Promise<CosignedTree | undefined> {
    const number = this.#last.get(sha256Hex(origin));
    if (number === undefined) return undefined;
    const path = this.#pathOf(origin, number);
    try {
      const tree = readCosigned(unambiguousJson(await readFile(path)));
      if (tree.origin !== origin) throw new LedgerError(`it is of the log ${tree.origin}`);
      return tree;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') throw this.#overtaken(origin, error);
      if (!(error instanceof LedgerError || error instanceof AmbiguousJsonError))
        throw new Unusable(`${path}: ${messageOf(error)}`, { cause: error });
      throw new Unusable(
        `${path} is damaged (${error.message}): bring it back as it was last, or make a new key. An older copy would let this key sign two histories`,
        { cause: error },
      );
    }
  }

  /**
   * Adds what may be cosigned behind {@link last}; it is on the disk when this returns.
   * @throws Unusable when another process was faster, or it cannot be written
   */
  async add(tree: CosignedTree): Promise<void> {
    const { origin } = tree;
    const number = (this.#last.get(sha256Hex(origin)) ?? 0) + 1;
    const draft = join(this.#folder, `.${randomUUID()}`);
    try {
      await writeForced(draft, `${JSON.stringify(tree)}\n`);
      // Unlike a rename, a link takes the place of nothing: of several processes one has it.
      await link(draft, this.#pathOf(origin, number));
      await force(this.#folder);
      const names = await readdir(this.#folder);
      if (lastOf(names).get(sha256Hex(origin)) !== number) {
        // It had looked long ago, and found its number free again.
        await rm(this.#pathOf(origin, number), { force: true });
        throw this.#overtaken(origin);
      }
      await this.#forget(names, origin, number - 1);
    } catch (error) {
      if (error instanceof Unusable) throw error;
      if (codeOf(error) === 'EEXIST') throw this.#overtaken(origin, error);
      throw new Unusable(`${this.#folder} cannot be written: ${messageOf(error)}`, { cause: error });
    } finally {
      await rm(draft, { force: true }).catch(() => undefined);
    }
  }

  /** Removes entries before a number. */
  async #forget(names: readonly string[], origin: string, before: number): Promise<void> {
    for (const name of names) {
      const [, log, digits] = ENTRY.exec(name) ?? [];
      if (log === sha256Hex(origin) && Number(digits) < before) await rm(join(this.#folder, name), { force: true });
    }
  }

  #pathOf(origin: string, number: number): string {
    return join(this.#folder, `${sha256Hex(origin)}.${String(number).padStart(DIGITS, '0')}.json`);
  }

  #overtaken(origin: string, cause?: unknown): Unusable {
    return new Unusable(`another process has cosigned ${origin} with this key meanwhile (${this.#folder}): nothing was signed here`, {
      cause,
    });
  }
}

function folderOf(keyFile: string): string {
  return `${keyFile}.cosigned`;
}

function lastOf(names: readonly string[]): ReadonlyMap<string, number> {
  const last = new Map<string, number>();
  for (const name of names) {
    const [, log, digits] = ENTRY.exec(name) ?? [];
    if (log !== undefined) last.set(log, Math.max(last.get(log) ?? 0, Number(digits)));
  }
  return last;
}

async function writeForced(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function force(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}
