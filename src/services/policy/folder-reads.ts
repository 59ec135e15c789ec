import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type PolicyFolder, readPolicyFolder } from './policy-folder.ts';

/** What was seen of the policies folder, and why it is not what runs. */
export class FolderReads {
  readonly #dir: string;
  /**
   * Content of the folder when it was last taken, refused, or set aside by a bundle that was put: another content is a
   * change.
   */
  #seen: string | undefined;
  #readProblem: unknown;
  #loadProblem: unknown;

  constructor(dir: string, seen: string | undefined) {
    this.#dir = dir;
    this.#seen = seen;
  }

  /** Why what is in the folder now was not taken, so that the bundle before it runs on; undefined: it was. */
  get problem(): unknown {
    return this.#readProblem ?? this.#loadProblem;
  }

  isSeen({ hash }: PolicyFolder): boolean {
    return hash === this.#seen;
  }

  /** A bundle was put beside this content, which counts no more. */
  setAside(hash: string | undefined): void {
    this.#seen = hash;
  }

  /** @throws GatewayError when the folder cannot be read */
  async read(): Promise<PolicyFolder> {
    try {
      const folder = await readPolicyFolder(this.#dir);
      this.#readProblem = undefined;
      return folder;
    } catch (error) {
      this.#readProblem = error;
      throw error;
    }
  }

  /** Takes a content that was read. @throws what `take` does, which is kept as the problem */
  async taking<T>({ hash }: PolicyFolder, take: () => Promise<T>): Promise<T> {
    this.#seen = hash;
    try {
      const taken = await take();
      this.#loadProblem = undefined;
      return taken;
    } catch (error) {
      this.#loadProblem = error;
      throw error;
    }
  }

  /** Follows the folder by `change`; a mistake is logged once. Never rejects. */
  async following(log: Logger, change: () => Promise<unknown>): Promise<void> {
    const before = this.#readProblem;
    try {
      await change();
    } catch (error) {
      const message = messageOf(error);
      if (before === undefined || message !== messageOf(before)) log.error({ dir: this.#dir }, message);
    }
  }
}
