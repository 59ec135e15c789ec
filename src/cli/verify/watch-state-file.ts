import { open, readFile, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { codeOf, messageOf } from '../../base/lib/thrown.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { readWatchedChain, type WatchedChain } from '../../ledger/watched-chain.ts';
import { Unusable } from '../command.ts';

const MAX_STATE_BYTES = 1024 * 1024;

/** What a watcher remembers from one run to the next. */
export class WatchStateFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Undefined: there is no such file. @throws Unusable for one that is damaged: then nobody knows any more what was seen */
  async read(): Promise<WatchedChain | undefined> {
    try {
      if ((await stat(this.#path)).size > MAX_STATE_BYTES) throw new LedgerError(`it is larger than ${MAX_STATE_BYTES} bytes`);
      return readWatchedChain(unambiguousJson(await readFile(this.#path)));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      if (!(error instanceof LedgerError || error instanceof AmbiguousJsonError))
        throw new Unusable(`${this.#path}: ${messageOf(error)}`, { cause: error });
      throw new Unusable(
        `${this.#path} is damaged (${error.message}). Bring it back from a copy; or move it away and start again, which trusts what the control plane says now`,
        { cause: error },
      );
    }
  }

  /** A reader, or a power cut, sees the old state or the new one. @throws Unusable */
  async write(state: WatchedChain): Promise<void> {
    const next = `${this.#path}.next`;
    try {
      const file = await open(next, 'w', 0o600);
      try {
        await file.writeFile(`${JSON.stringify(state, null, 2)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(next, this.#path);
      const folder = await open(dirname(this.#path), 'r');
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw new Unusable(`${this.#path} cannot be written: ${messageOf(error)}`, { cause: error });
    }
  }
}
