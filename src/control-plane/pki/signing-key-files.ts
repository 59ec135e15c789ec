import { rename, rm } from 'node:fs/promises';
import { syncFolderOf } from './kept-once.ts';
import { type KeptSigningKey, keptSigningKey, openSigningKey } from './kept-signing-key.ts';

/** Of which there may be one that signs, and one that is to. */
type Use = KeptSigningKey['listed']['use'];

/**
 * The private keys of one use in the data folder. Which of them signs says the store; here it is brought about, so that
 * an end of the process between the two leaves nothing that the next start does not put right (decision 13.18).
 */
export class SigningKeyFiles {
  readonly #file: string;
  readonly #nextFile: string;
  readonly #use: Use;

  /** @param file of the key that signs, `….pem`; the next one stands beside it */
  constructor(file: string, use: Use) {
    this.#file = file;
    this.#nextFile = file.replace(/\.pem$/, '.next.pem');
    this.#use = use;
  }

  /**
   * The key that signs, which is made where the store knows of none.
   * @param kid by which the store knows it; undefined: it knows none yet
   * @throws Error when none of the files holds the one that the store knows
   */
  async present(kid: string | undefined): Promise<KeptSigningKey> {
    if (kid === undefined) return openSigningKey(this.#file, this.#use);
    const found = await keptSigningKey(this.#file, this.#use);
    if (found?.kid === kid) return found;
    const next = await this.next();
    if (next?.kid !== kid)
      throw new Error(`${this.#file} is not the key that signs (${kid}): restore it from the backup that the rest of the folder is of`);
    await this.promote();
    return next;
  }

  /** The key that is to sign; undefined: there is none. */
  next(): Promise<KeptSigningKey | undefined> {
    return keptSigningKey(this.#nextFile, this.#use);
  }

  /** Makes the next key, in the place of one that was given up. */
  async makeNext(): Promise<KeptSigningKey> {
    await this.dropNext();
    return openSigningKey(this.#nextFile, this.#use);
  }

  /** The next key takes the place of the one that signs, of which the private half is gone then. */
  async promote(): Promise<void> {
    await rename(this.#nextFile, this.#file);
    await syncFolderOf(this.#file);
  }

  async dropNext(): Promise<void> {
    await rm(this.#nextFile, { force: true });
    await syncFolderOf(this.#file);
  }
}
