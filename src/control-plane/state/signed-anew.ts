import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type Commit, unlessConflict } from '../../services/registers/commit.ts';
import type { KeptOverlays } from './kept-overlays.ts';
import type { OrgBundles } from './org-bundles.ts';
import type { SigningKeys } from './signing-keys.ts';

const AGAIN_MS = 60_000;

export interface SignedAnewOptions {
  readonly keys: SigningKeys;
  readonly bundles: OrgBundles;
  readonly overlays: KeptOverlays;
  readonly orgIds: () => readonly string[];
  readonly commit: Commit;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What is still signed with a former key of bundles. */
interface Rest {
  readonly bundles: readonly string[];
  readonly overlays: readonly (readonly [orgId: string, id: string])[];
}

/**
 * Signs bundles and overlays anew when another key signs, one commit each: whoever is interrupted goes on at the next
 * start (decision 13.18).
 */
export class SignedAnew {
  readonly #options: SignedAnewOptions;
  readonly #job: RunningJob;
  #stopped = false;

  constructor(options: SignedAnewOptions) {
    this.#options = options;
    this.#job = every(options, {
      everyMs: () => undefined,
      run: () => this.#run(),
      failed: 'bundles could not be signed with the key whose turn it is',
      failedLevel: 'error',
    });
    options.keys.onChange(() => void this.#job.now());
  }

  /** Goes on where it was interrupted. Never rejects. */
  start(): Promise<void> {
    return this.#job.now();
  }

  /** How many bundles and overlays are signed with a former key. */
  async left(): Promise<number> {
    const { bundles, overlays } = await this.#rest();
    return bundles.length + overlays.length;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#job.stop();
  }

  async #run(): Promise<void> {
    const { bundles, overlays, commit, log } = this.#options;
    try {
      const rest = await this.#rest();
      for (const orgId of rest.bundles) if (!this.#stopped) await unlessConflict(bundles.signAnew(orgId, commit));
      for (const [orgId, id] of rest.overlays) if (!this.#stopped) await unlessConflict(overlays.signAnew(orgId, id, commit));
      const count = rest.bundles.length + rest.overlays.length;
      if (count > 0) log.info({ count }, 'bundles and overlays were signed with the key whose turn it is');
      // What somebody has put meanwhile is signed with it; what lost against him is looked at once more.
      if (count > 0) this.#job.within(AGAIN_MS);
    } catch (error) {
      this.#job.within(AGAIN_MS);
      throw error;
    }
  }

  async #rest(): Promise<Rest> {
    const { keys, bundles, overlays, orgIds } = this.#options;
    // Before the first rotation there is nothing to look for.
    if (keys.formerKids.size === 0) return { bundles: [], overlays: [] };
    const found: [string, string][] = [];
    for (const orgId of orgIds()) for (const id of await overlays.signedOtherwise(orgId, keys.kid)) found.push([orgId, id]);
    return { bundles: bundles.signedOtherwise(keys.kid), overlays: found };
  }
}
