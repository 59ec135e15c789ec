import { rename, rm } from 'node:fs/promises';
import { isThere, syncFolderOf } from './kept-once.ts';

/**
 * Two private keys in the data folder, of which one is to take the place of the other. Which of them counts says the
 * store; here it is brought about, so that an end of the process between the two leaves nothing that the next start
 * does not put right (decision 13.18).
 */
export class KeyFiles<K extends { readonly kid: string }> {
  readonly #file: string;
  readonly #nextFile: string;
  readonly #open: (file: string) => Promise<K>;

  /**
   * @param file of the key that counts, `….pem`; the next one stands beside it
   * @param open reads the key of a file, or makes it; throws for one that others can read
   */
  constructor(file: string, open: (file: string) => Promise<K>) {
    this.#file = file;
    this.#nextFile = file.replace(/\.pem$/, '.next.pem');
    this.#open = open;
  }

  /**
   * The key that counts, which is made where the store knows of none.
   * @param kid by which the store knows it; undefined: it knows none yet
   * @throws Error when none of the files holds the one that the store knows
   */
  async present(kid: string | undefined): Promise<K> {
    if (kid === undefined) return this.#open(this.#file);
    const found = await this.#kept(this.#file);
    if (found?.kid === kid) return found;
    const next = await this.next();
    if (next?.kid !== kid)
      throw new Error(`${this.#file} is not the key that counts (${kid}): restore it from the backup that the rest of the folder is of`);
    await rename(this.#nextFile, this.#file);
    await syncFolderOf(this.#file);
    return next;
  }

  /** The key that is to follow; undefined: there is none. */
  next(): Promise<K | undefined> {
    return this.#kept(this.#nextFile);
  }

  /** Makes the next key, in the place of one that was given up. */
  async makeNext(): Promise<K> {
    await this.dropNext();
    return this.#open(this.#nextFile);
  }

  async dropNext(): Promise<void> {
    await rm(this.#nextFile, { force: true });
    await syncFolderOf(this.#file);
  }

  async #kept(file: string): Promise<K | undefined> {
    return (await isThere(file)) ? this.#open(file) : undefined;
  }
}
