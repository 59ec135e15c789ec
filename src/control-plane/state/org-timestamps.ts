import { randomBytes, type X509Certificate } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type MerkleRoot, rootDigest } from '../../ledger/merkle-root.ts';
import { checkTimeStamp } from '../../ledger/time-stamp-signer.ts';
import { hexOfNumber, timeStampRequest, tokenOfAnswer } from '../../ledger/time-stamp-token.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { keyIn, prefixOf, SPACE } from './control-plane-spaces.ts';

const NONCE_BYTES = 8;
/** Digits of a sequence in a key, so that keys are in order. */
const SEQUENCE_DIGITS = 15;
/** After a try that failed: from the first to the second, twice as long each time. */
const RETRY_MS = [30_000, 900_000] as const;

/** That a root was there at a time, as an authority says (decision 13.17). */
export interface RootTimestamp {
  /** Of the root. */
  readonly sequence: number;
  /** RFC 3339. */
  readonly time: string;
  /** RFC 3161, DER in base64. */
  readonly token: string;
}

/** The newest stamp of an org. */
interface NewestStamp extends Omit<RootTimestamp, 'token'> {
  /** When it was stored, by our clock, milliseconds since the epoch. */
  readonly at: number;
}

export interface OrgTimestampsOptions {
  readonly store: Pick<Store, 'commit' | 'list'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Undefined: no authority is asked, and what was stamped before is shown. */
  readonly authority: TimeStampAuthority | undefined;
}

export interface TimeStampAuthority {
  /** DER of a request, DER of an answer. */
  readonly ask: (request: Uint8Array, signal: AbortSignal) => Promise<Buffer>;
  /** Milliseconds between two stamps of one org. */
  readonly intervalMs: number;
  /** Whose stamps are taken; undefined: of whoever answers. */
  readonly trusted: readonly X509Certificate[] | undefined;
}

/** Since the start, but for the newest. */
export interface TimestampCounts {
  readonly made: number;
  readonly failed: number;
  /** When the newest stamp of any org was stored, milliseconds since the epoch; undefined: there is none. */
  readonly newestAt: number | undefined;
}

/**
 * Has the newest root of each org stamped by an authority: the first at once, then one in each interval. An authority
 * that is away delays stamps, and no root waits for one.
 */
export class OrgTimestamps {
  readonly #options: OrgTimestampsOptions;
  /** Newest roots that are newer than their last stamp. */
  readonly #waiting = new Map<string, MerkleRoot>();
  readonly #newest = new Map<string, NewestStamp>();
  readonly #job: RunningJob;
  readonly #ending = new AbortController();
  #made = 0;
  #failed = 0;
  /** After a failure; undefined: the last try has succeeded. */
  #retryMs: number | undefined;

  private constructor(options: OrgTimestampsOptions) {
    this.#options = options;
    this.#job = every(options, {
      everyMs: () => this.#retryMs,
      run: () => this.#stampDue(),
      failed: 'time stamps could not be stored',
    });
  }

  /** @param newestRoots of orgs, as the store has them */
  static async open(options: OrgTimestampsOptions, newestRoots: AsyncIterable<MerkleRoot>): Promise<OrgTimestamps> {
    const stamps = new OrgTimestamps(options);
    for (const { key, value } of await options.store.list(SPACE.timestampHeads)) stamps.#newest.set(key, value as NewestStamp);
    if (options.authority !== undefined) for await (const root of newestRoots) stamps.take(root);
    return stamps;
  }

  get counts(): TimestampCounts {
    let newestAt: number | undefined;
    for (const { at } of this.#newest.values()) newestAt = Math.max(newestAt ?? at, at);
    return { made: this.#made, failed: this.#failed, newestAt };
  }

  /** A root was signed. */
  take(root: MerkleRoot): void {
    const { authority } = this.#options;
    if (authority === undefined) return;
    this.#waiting.set(root.org_id, root);
    const waitMs = this.#waitOf(root, authority.intervalMs);
    if (this.#retryMs === undefined && waitMs !== undefined) this.#job.within(waitMs);
  }

  /** Stamps of an org behind the root of a sequence, in order. @param limit at least 1 */
  async list(orgId: string, after: number, limit: number): Promise<readonly RootTimestamp[]> {
    const page = { prefix: prefixOf(orgId), after: keyIn(orgId, digits(after)), limit };
    return (await this.#options.store.list(SPACE.timestamps, page)).map(({ value }) => value as RootTimestamp);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#job.stop();
  }

  async #stampDue(): Promise<void> {
    const { authority, log } = this.#options;
    if (authority === undefined) return;
    let nextMs: number | undefined;
    for (const root of [...this.#waiting.values()]) {
      const waitMs = this.#waitOf(root, authority.intervalMs);
      if (waitMs === undefined) this.#forget(root);
      if (waitMs === undefined || this.#ending.signal.aborted) continue;
      if (waitMs > 0) nextMs = Math.min(nextMs ?? waitMs, waitMs);
      else if (!(await this.#stamp(root, authority))) return;
    }
    if (this.#retryMs !== undefined) log.info({}, 'the time-stamp authority (CP_TSA_URL) answers again');
    this.#retryMs = undefined;
    if (nextMs !== undefined) this.#job.within(nextMs);
  }

  /** Milliseconds until its stamp is due; undefined: it has one. */
  #waitOf(root: MerkleRoot, intervalMs: number): number | undefined {
    const newest = this.#newest.get(root.org_id);
    if (newest === undefined) return 0;
    if (newest.sequence >= root.sequence) return undefined;
    // A clock that was set back makes nobody wait longer than an interval.
    return Math.min(intervalMs, Math.max(0, newest.at + intervalMs - this.#options.clock.now()));
  }

  /** @returns whether it has succeeded: otherwise no other is tried before the authority is asked again */
  async #stamp(root: MerkleRoot, { ask, trusted }: TimeStampAuthority): Promise<boolean> {
    const { clock, log, store } = this.#options;
    const imprint = rootDigest(root);
    const nonce = randomBytes(NONCE_BYTES);
    try {
      const token = tokenOfAnswer(await ask(timeStampRequest(Buffer.from(imprint, 'hex'), nonce), this.#ending.signal));
      const { time } = checkTimeStamp(token, { imprint, nonce: hexOfNumber(nonce), trusted });
      const { org_id: orgId, sequence } = root;
      const newest: NewestStamp = { sequence, time, at: clock.now() };
      await store.commit(undefined, stored(orgId, { sequence, time, token: token.toString('base64') }, newest));
      this.#made++;
      this.#newest.set(orgId, newest);
      this.#forget(root);
      return true;
    } catch (error) {
      if (this.#ending.signal.aborted) return false;
      this.#failed++;
      const [shortest, longest] = RETRY_MS;
      // One line for each time it breaks.
      if (this.#retryMs === undefined)
        log.warn(
          { err: error, org_id: root.org_id, reason: messageOf(error) },
          'no time stamp was made; it is tried again, and roots go on',
        );
      this.#retryMs = this.#retryMs === undefined ? shortest : Math.min(this.#retryMs * 2, longest);
      return false;
    }
  }

  /** Unless a newer root has come meanwhile. */
  #forget(root: MerkleRoot): void {
    if (this.#waiting.get(root.org_id)?.sequence === root.sequence) this.#waiting.delete(root.org_id);
  }
}

function stored(orgId: string, stamp: RootTimestamp, newest: NewestStamp): Effect[] {
  return [
    { op: 'put', space: SPACE.timestamps, key: keyIn(orgId, digits(stamp.sequence)), value: stamp },
    { op: 'put', space: SPACE.timestampHeads, key: orgId, value: newest },
  ];
}

function digits(sequence: number): string {
  return String(sequence).padStart(SEQUENCE_DIGITS, '0');
}
