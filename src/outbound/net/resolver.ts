import { lookup as systemLookup } from 'node:dns/promises';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Lru } from '../../base/lib/lru.ts';
import { lookupError } from './upstream-error.ts';

/**
 * Turns a canonical name into its addresses, in the order in which they should be tried. Rejects with the system's
 * error.
 */
export type Lookup = (host: string) => Promise<readonly string[]>;

export interface ResolverOptions {
  readonly clock: Clock;
  /** Names that are always resolved fresh behind a stale answer, and never wait for a place: the AI hosts. */
  readonly isKnown: (host: string) => boolean;
  /** Default: the system's resolver (`getaddrinfo`). */
  readonly lookup?: Lookup;
}

/** `getaddrinfo` tells no TTL: an answer counts as fresh this long, and may be used while a newer one is fetched. */
const FRESH_MS = 30_000;
const STALE_MS = 600_000;
/** A failure is remembered just long enough to stop a loop of retries. */
const FAILED_MS = 2_000;
const LIMIT_MS = 5_000;
const MAX_NAMES = 2_048;
/**
 * Unknown names never hold more of the thread pool than this: dead names kept every other look-up waiting for minutes.
 */
const UNKNOWN_AT_ONCE = 4;
const UNKNOWN_WAITING = 1_024;

interface Entry {
  readonly addresses: readonly string[];
  readonly at: number;
}

/**
 * The only resolver: cached, single-flight, with a limit of five seconds per caller. A call of the system's resolver
 * cannot be cancelled, so one that hangs keeps its place until it returns.
 */
export class Resolver {
  readonly #clock: Clock;
  readonly #isKnown: (host: string) => boolean;
  readonly #lookup: Lookup;
  readonly #found: Lru<string, Entry>;
  readonly #failed: Lru<string, GatewayError>;
  readonly #running = new Map<string, Promise<Entry>>();
  readonly #waiting: (() => void)[] = [];
  #unknownRunning = 0;

  constructor(options: ResolverOptions) {
    this.#clock = options.clock;
    this.#isKnown = options.isKnown;
    this.#lookup = options.lookup ?? lookupAll;
    this.#found = new Lru({ max: MAX_NAMES });
    this.#failed = new Lru({ max: MAX_NAMES, ttl: { ms: FAILED_MS, clock: options.clock } });
  }

  /**
   * @param host canonical name, no address literal
   * @throws GatewayError `upstream_unreachable` when there is no address, `upstream_timeout` after five seconds
   */
  async resolve(host: string): Promise<readonly string[]> {
    const entry = this.#found.get(host);
    if (entry !== undefined) {
      const age = this.#clock.monotonic() - entry.at;
      if (age < FRESH_MS) return entry.addresses;
      if (age < STALE_MS && this.#isKnown(host)) {
        this.#fetch(host).catch(() => undefined);
        return entry.addresses;
      }
    }
    const failed = this.#failed.get(host);
    if (failed !== undefined) throw failed;
    return (await this.#withLimit(host, this.#fetch(host))).addresses;
  }

  /** Forgets an answer whose addresses could not be reached. */
  forget(host: string): void {
    this.#found.delete(host);
  }

  #fetch(host: string): Promise<Entry> {
    const running = this.#running.get(host);
    if (running !== undefined) return running;
    const started = this.#isKnown(host) || this.#found.has(host) ? this.#ask(host) : this.#askInTurn(host);
    const tracked = started.finally(() => this.#running.delete(host));
    this.#running.set(host, tracked);
    return tracked;
  }

  async #ask(host: string): Promise<Entry> {
    try {
      const addresses = await this.#lookup(host);
      if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENODATA' });
      const entry = { addresses, at: this.#clock.monotonic() };
      this.#found.set(host, entry);
      return entry;
    } catch (error) {
      const failure = lookupError(host, error);
      this.#failed.set(host, failure);
      throw failure;
    }
  }

  async #askInTurn(host: string): Promise<Entry> {
    if (this.#unknownRunning >= UNKNOWN_AT_ONCE) {
      if (this.#waiting.length >= UNKNOWN_WAITING) throw new GatewayError('overloaded', 'Too many names are being looked up.');
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else {
      this.#unknownRunning++;
    }
    try {
      return await this.#ask(host);
    } finally {
      // The place is handed on, or given back.
      const next = this.#waiting.shift();
      if (next === undefined) this.#unknownRunning--;
      else next();
    }
  }

  #withLimit(host: string, fetched: Promise<Entry>): Promise<Entry> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(LIMIT_MS, () => {
        reject(new GatewayError('upstream_timeout', `${host} could not be looked up within ${LIMIT_MS / 1000} seconds.`));
      });
      fetched.then(resolve, reject).finally(cancel);
    });
  }
}

async function lookupAll(host: string): Promise<readonly string[]> {
  const records = await systemLookup(host, { all: true, verbatim: true });
  return records.map((record) => record.address);
}
