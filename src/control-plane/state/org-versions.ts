import { randomBytes } from 'node:crypto';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { TurnPerKey } from '../../base/lib/turn.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import type { Commit } from '../../services/registers/commit.ts';
import { WatchedSpace } from '../../services/registers/watched-space.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { keyIn, prefixOf, SPACE } from './control-plane-spaces.ts';
import type { Resource } from './control-plane-state.ts';

/** Updates of an org that can be told again to a gateway that comes back; older ones are removed. */
export const KEPT_UPDATES = CONTROL_PLANE_BOUNDS.keptUpdates.org;
const EPOCH_BYTES = 6;
const SEQUENCE_DIGITS = 15;

/** What of an org's versions is stored; those of bundle and keys stand elsewhere. */
type Raised = Exclude<Resource, 'policy' | 'keys'>;

interface StoredVersions {
  readonly org_id: string;
  /** Random, so that the versions of an org that was made anew are others. */
  readonly epoch: string;
  /** Number of the last update. */
  readonly sequence: number;
  readonly versions: Readonly<Record<Raised, string>>;
}

/** That something of an org has changed. */
export interface LoggedUpdate {
  readonly sequence: number;
  readonly at: string;
}

/**
 * What version of each resource an org has, and the numbered log of its changes (decision 13.5). Both are raised in the
 * commit of the change itself, so that no gateway is told of a change that is not there, and none is there that nobody
 * is told of.
 */
export class OrgVersions {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #space: WatchedSpace<StoredVersions>;
  readonly #listeners: Set<(orgId: string) => void>;
  /** The last change of each org that is under way: one after the other. */
  readonly #turns = new TurnPerKey();

  private constructor(store: Store, clock: Clock, space: WatchedSpace<StoredVersions>, listeners: Set<(orgId: string) => void>) {
    this.#store = store;
    this.#clock = clock;
    this.#space = space;
    this.#listeners = listeners;
  }

  static async open(store: Store, clock: Clock): Promise<OrgVersions> {
    const listeners = new Set<(orgId: string) => void>();
    const space = await WatchedSpace.open<StoredVersions>(store, SPACE.versions, {
      read: (value) => value as StoredVersions,
      changed: (orgId) => {
        for (const listener of listeners) listener(orgId);
      },
    });
    return new OrgVersions(store, clock, space, listeners);
  }

  /** The versions that an org has now; empty texts for an org that there is not. */
  versions(orgId: string): Readonly<Record<Raised, string>> {
    return { ...NONE, ...this.#space.get(orgId)?.versions };
  }

  /** Number of an org's last update; 0: there was none. */
  sequence(orgId: string): number {
    return this.#space.get(orgId)?.sequence ?? 0;
  }

  /** Told of each org of which something has changed, once it can be read. @returns what ends that */
  onChange(listener: (orgId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The updates behind a number, in their order, at most `limit`; undefined when some of them are no longer there, or
   * the number was never given.
   */
  async updatesAfter(orgId: string, after: number, limit: number): Promise<readonly LoggedUpdate[] | undefined> {
    if (after > this.sequence(orgId)) return undefined;
    if (after === this.sequence(orgId)) return [];
    const rows = await this.#store.list(SPACE.updates, { prefix: prefixOf(orgId), after: updateKey(orgId, after), limit });
    const updates = rows.map(({ value }) => value as LoggedUpdate);
    return updates[0]?.sequence === after + 1 ? updates : undefined;
  }

  /**
   * A commit that raises these versions and writes the change into the log; none of them: the org itself has changed.
   */
  raising(orgId: string, resources: readonly Resource[], commit: Commit): Commit {
    return (object, effects, expect = [], also = [], told = undefined) =>
      this.#turns.take(orgId, async () => {
        const found = await this.#store.entity(SPACE.versions, orgId);
        const next = this.#raised(orgId, found?.value as StoredVersions | undefined, resources);
        await commit(
          object,
          [...effects, ...this.#effects(next)],
          [...expect, { space: SPACE.versions, key: orgId, version: found?.version }],
          also,
          told,
        );
        await this.#space.refresh(orgId);
      });
  }

  #raised(orgId: string, before: StoredVersions | undefined, resources: readonly Resource[]): StoredVersions {
    const { epoch, sequence: last } = before ?? { epoch: randomBytes(EPOCH_BYTES).toString('hex'), sequence: 0 };
    const sequence = last + 1;
    const text = `${epoch}.${sequence}`;
    const first = { workloads: text, credentials: text, export_config: text, addons: text, api_keys: text, overlays: text };
    const versions = { ...first, ...before?.versions };
    const raised = Object.fromEntries(resources.filter((one) => one in versions).map((one) => [one, text]));
    return { org_id: orgId, epoch, sequence, versions: { ...versions, ...raised } };
  }

  #effects(next: StoredVersions): readonly Effect[] {
    const { org_id: orgId, sequence } = next;
    const update: LoggedUpdate = { sequence, at: timestamp(this.#clock.now()) };
    const removed = sequence - KEPT_UPDATES;
    return [
      { op: 'put', space: SPACE.versions, key: orgId, value: next },
      { op: 'put', space: SPACE.updates, key: updateKey(orgId, sequence), value: update },
      ...(removed > 0 ? [{ op: 'delete', space: SPACE.updates, key: updateKey(orgId, removed) } as const] : []),
    ];
  }
}

const NONE: Readonly<Record<Raised, string>> = {
  workloads: '',
  credentials: '',
  export_config: '',
  addons: '',
  api_keys: '',
  overlays: '',
};

function updateKey(orgId: string, sequence: number): string {
  return keyIn(orgId, String(sequence).padStart(SEQUENCE_DIGITS, '0'));
}
