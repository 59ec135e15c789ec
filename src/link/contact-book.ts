import { type Clock, timestamp } from '../base/lib/clock.ts';
import { every, type RunningJob } from '../base/lib/every.ts';
import type { Logger } from '../base/lib/log.ts';
import { Turn } from '../base/lib/turn.ts';
import type { OrgState } from '../control-plane/proto/messages.ts';
import type { OrgService } from '../services/people/orgs.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Contact } from './link-ports.ts';

/** By org: how it stands with its control plane. */
export const CONTACTS = 'control_plane_contact';
/** How often the progress of being offline is noted. */
const NOTE_EVERY_MS = 60_000;
const SECOND_MS = 1_000;

/** What was last heard of an org before this start; undefined: nothing. */
export async function lastHeardOrg(store: Pick<Store, 'get'>, orgId: string): Promise<OrgState | undefined> {
  return ((await store.get(CONTACTS, orgId)) as NotedContact | undefined)?.org ?? undefined;
}

/** As it is stored. */
interface NotedContact {
  readonly org: OrgState | null;
  readonly revoked: boolean;
  /** Undefined: it was connected. */
  readonly offline?: {
    /** Milliseconds since the epoch of the first contact that failed. */
    readonly since: number;
    /** Milliseconds that it had lasted when this was noted. */
    readonly lasted: number;
    /** Milliseconds since the epoch of that moment. */
    readonly at: number;
  };
}

interface Offline {
  readonly since: number;
  /** Milliseconds that it had lasted at `mark`. */
  readonly lasted: number;
  /** Monotonic. */
  readonly mark: number;
}

export interface ContactBookOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly orgs: OrgService;
  /** Takes in what the org has bought, each time that it is told, and what was told last at the start. */
  readonly plan?: { heed(org: OrgState): Promise<void> };
  readonly orgId: string;
  /** False while the time of day is not to be believed. */
  readonly mayBelieveClock: () => boolean;
}

/**
 * How it stands with the control plane, and what was last heard of the org (decision 13.8): both outlive the process.
 * How long a loss of contact has lasted is counted by the monotonic clock, so that a time of day that is set changes
 * nothing of it; only the time in which the gateway did not run is taken from the time of day.
 */
export class ContactBook implements Contact {
  readonly #options: ContactBookOptions;
  readonly #key: string;
  #org: OrgState | undefined;
  #offline: Offline | undefined;
  #revoked = false;
  /** Notes the progress of being offline. */
  readonly #job: RunningJob;
  readonly #turn = new Turn();

  private constructor(options: ContactBookOptions) {
    this.#options = options;
    this.#key = options.orgId;
    this.#job = every(options, {
      everyMs: () => (this.#offline === undefined ? undefined : NOTE_EVERY_MS),
      run: () => this.#note(),
      failed: 'how it stands with the control plane could not be noted',
    });
  }

  static async open(options: ContactBookOptions): Promise<ContactBook> {
    const book = new ContactBook(options);
    // This class alone writes it.
    const noted = (await options.store.get(CONTACTS, book.#key)) as NotedContact | undefined;
    if (noted !== undefined) book.#goOnFrom(noted);
    if (book.#org !== undefined) await options.plan?.heed(book.#org);
    return book;
  }

  get status(): Contact['status'] {
    return this.#offline === undefined ? 'connected' : 'offline';
  }

  get offlineSince(): number | undefined {
    return this.#offline?.since;
  }

  /** 0 while connected. */
  get offlineMs(): number {
    return this.#offline === undefined ? 0 : this.#offline.lasted + (this.#options.clock.monotonic() - this.#offline.mark);
  }

  get posture(): Contact['posture'] {
    if (this.#offline === undefined || this.#org === undefined) return 'normal';
    if (this.offlineMs < this.#org.grace_seconds * SECOND_MS) return 'normal';
    return this.#org.cp_down_policy === 'strict' ? 'strict' : 'permissive';
  }

  get org(): OrgState | undefined {
    return this.#org;
  }

  get revoked(): boolean {
    return this.#revoked;
  }

  /** The control plane has answered. Resolves when what it said of the org counts. Never rejects. */
  async heard(org: OrgState | null): Promise<void> {
    const { clock, log } = this.#options;
    const wasOffline = this.#offline;
    const offlineMs = this.offlineMs;
    const changed = org !== null && !sameState(org, this.#org);
    if (org !== null) this.#org = { ...org, stale: null };
    if (wasOffline !== undefined || this.#revoked) {
      this.#offline = undefined;
      this.#revoked = false;
      this.#job.rearm();
      log.info(
        { offline_since: timestamp(wasOffline?.since ?? clock.now()), offline_ms: Math.round(offlineMs) },
        'connected to the control plane',
      );
    }
    if (org !== null) await this.#obey(org);
    if (changed || wasOffline !== undefined) await this.#note();
  }

  /** A contact has failed. @param revoked by the control plane's own word: this node's certificate counts no longer */
  async failed(reason: string, revoked: boolean): Promise<void> {
    const { clock, log } = this.#options;
    if (this.#offline !== undefined && this.#revoked === revoked) return;
    this.#offline ??= { since: clock.now(), lasted: 0, mark: clock.monotonic() };
    this.#revoked = revoked;
    if (revoked)
      log.error(
        { reason },
        'the control plane has revoked the certificate of this node: what it was given in confidence is erased. Enrol it anew',
      );
    else
      log.warn(
        { reason, grace_seconds: this.#org?.grace_seconds, cp_down_policy: this.#org?.cp_down_policy },
        'no contact with the control plane: going on from what was last fetched',
      );
    this.#job.rearm();
    await this.#note();
  }

  async close(): Promise<void> {
    await this.#job.stop();
    if (this.#offline !== undefined) await this.#note();
    await this.#turn.over();
  }

  #goOnFrom({ org, revoked, offline }: NotedContact): void {
    const { clock, mayBelieveClock } = this.#options;
    this.#org = org ?? undefined;
    this.#revoked = revoked;
    if (offline === undefined) return;
    const notRunning = mayBelieveClock() ? Math.max(0, clock.now() - offline.at) : 0;
    this.#offline = { since: offline.since, lasted: offline.lasted + notRunning, mark: clock.monotonic() };
    this.#job.rearm();
  }

  async #obey(org: OrgState): Promise<void> {
    const { orgs, orgId, log, plan } = this.#options;
    const { status, suspended_reason: reason } = org;
    // A state that this version does not know is not one in which calls are let through.
    const known = status === 'active' || status === 'terminated' ? status : 'suspended';
    try {
      await orgs.told(orgId, known, reason === '' ? undefined : reason);
    } catch (error) {
      log.error(
        { err: error, org_status: status },
        'what the control plane says of the org could not be stored; it counts, and is stored with the next answer',
      );
    }
    try {
      await plan?.heed(org);
    } catch (error) {
      log.error({ err: error }, 'what the control plane says of the plan of the org could not be taken in');
    }
  }

  /** Never rejects: what cannot be stored is noted the next time. */
  #note(): Promise<void> {
    return this.#turn.take(async () => {
      const { store, log } = this.#options;
      try {
        await store.commit(undefined, [{ op: 'put', space: CONTACTS, key: this.#key, value: this.#noted() }]);
      } catch (error) {
        log.warn({ err: error }, 'how it stands with the control plane could not be noted; it is tried again');
      }
    });
  }

  #noted(): NotedContact {
    const offline = this.#offline;
    const said = { org: this.#org ?? null, revoked: this.#revoked };
    if (offline === undefined) return said;
    return {
      ...said,
      offline: { since: Math.floor(offline.since), lasted: Math.floor(this.offlineMs), at: Math.floor(this.#options.clock.now()) },
    };
  }
}

function sameState(one: OrgState, other: OrgState | undefined): boolean {
  return other !== undefined && JSON.stringify({ ...one, stale: null }) === JSON.stringify({ ...other, stale: null });
}
