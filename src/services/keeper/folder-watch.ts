import { type FSWatcher, watch } from 'node:fs';
import type { Clock } from '../../base/lib/clock.ts';
import { isMissing } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';

/**
 * An editor writes a file in several steps, and a deployment several files: what comes within this time is one change.
 */
const SETTLE_MS = 200;
/** Some changes are not announced: network file systems, and a folder that is a link which now leads elsewhere. */
const LOOK_AGAIN_MS = 30_000;

export interface FolderWatchOptions {
  /**
   * The folders to watch; asked anew after each change, since files and folders come and go. Those that do not exist
   * are left out.
   */
  readonly folders: () => readonly string[];
  /** Looks whether anything that matters has changed. Never rejects, never runs twice at once. */
  readonly onChange: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Calls back soon after something changed in one of the folders, and every half minute to be sure. Folders are watched,
 * not files: editors that save by renaming and Kubernetes, which swaps the link `..data` beside the files of a config
 * map, replace the file itself.
 */
export class FolderWatch {
  readonly #options: FolderWatchOptions;
  #watchers: readonly FSWatcher[] = [];
  #settling: (() => void) | undefined;
  #looking: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor(options: FolderWatchOptions) {
    this.#options = options;
    this.#run();
    this.#lookAgainLater();
  }

  /** Ends the watch, after the call that is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#settling?.();
    this.#looking?.();
    for (const watcher of this.#watchers) watcher.close();
    await this.#running;
  }

  /** The new watchers stand before the old ones go, and before anything is read: no change falls between. */
  #watch(): void {
    const old = this.#watchers;
    this.#watchers = this.#options.folders().flatMap((folder) => this.#watcher(folder) ?? []);
    for (const watcher of old) watcher.close();
  }

  #watcher(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#settle());
      watcher.on('error', () => watcher.close());
      return watcher;
    } catch (error) {
      if (!isMissing(error)) this.#options.log.warn({ folder, err: error }, 'a folder cannot be watched; it is looked at every 30 s');
      return undefined;
    }
  }

  #settle(): void {
    if (this.#closed) return;
    this.#settling ??= this.#options.clock.after(SETTLE_MS, () => {
      this.#settling = undefined;
      this.#run();
    });
  }

  #lookAgainLater(): void {
    this.#looking = this.#options.clock.after(LOOK_AGAIN_MS, () => {
      this.#run();
      this.#lookAgainLater();
    });
  }

  #run(): void {
    if (this.#closed) return;
    if (this.#running !== undefined) {
      this.#again = true;
      return;
    }
    this.#watch();
    this.#running = this.#options.onChange().then(() => {
      this.#running = undefined;
      // What was read may name other folders than before.
      this.#watch();
      if (!this.#again) return;
      this.#again = false;
      this.#run();
    });
  }
}
