import type { Clock } from '../base/lib/clock.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import type { Stale, Versions } from '../control-plane/proto/messages.ts';
import { NO_VERSIONS } from '../control-plane/proto/no-versions.ts';
import type { Channel, RemoteName, RemoteResource } from './link-ports.ts';

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** What is known of one resource beside its version. */
interface FetchState {
  readonly resource: RemoteResource;
  /** Only what is said from this turn on counts: the control plane knows then what was fetched. */
  heedsFrom: number;
  failures: number;
  /** Monotonic milliseconds before which it is not fetched again. */
  notBefore: number;
  fault: string | undefined;
  fetched: number;
  failed: number;
  /** The last fetch of it: one after the other. */
  running: Promise<unknown>;
}

/**
 * Fetches what the control plane says is stale: all at once, each for itself, one round after the other (decision
 * 13.8).
 */
export class RemoteFetches {
  readonly #states: readonly FetchState[];
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #wanted = new Set<RemoteName>();

  constructor(resources: readonly RemoteResource[], clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
    this.#states = resources.map((resource) => ({
      resource,
      heedsFrom: 0,
      failures: 0,
      notBefore: Number.NEGATIVE_INFINITY,
      fault: undefined,
      fetched: 0,
      failed: 0,
      running: Promise.resolve(),
    }));
  }

  versions(): Versions {
    return { ...NO_VERSIONS, ...Object.fromEntries(this.#states.map(({ resource }) => [resource.name, resource.version()])) };
  }

  /** What went wrong with the last fetch of each. */
  get faults(): readonly { readonly resource: RemoteName; readonly message: string }[] {
    return this.#states.flatMap(({ resource, fault }) => (fault === undefined ? [] : [{ resource: resource.name, message: fault }]));
  }

  /** Resource, result, count. */
  counts(): readonly (readonly [resource: string, result: string, count: number])[] {
    return this.#states.flatMap(({ resource: { name }, fetched, failed }) => [
      [name, 'fetched', fetched] as const,
      [name, 'failed', failed] as const,
    ]);
  }

  /** Takes in what an answer says. @returns whether something is to be fetched */
  heed(stale: Stale | null, turn: number): boolean {
    if (stale === null) return false;
    for (const { resource, heedsFrom } of this.#states) {
      if (turn < heedsFrom) continue;
      if (stale[resource.name]) this.#wanted.add(resource.name);
      else this.#wanted.delete(resource.name);
    }
    return this.#wanted.size > 0;
  }

  /** A check-in begins: from its turn on the flags of what was fetched count again. */
  toldFrom(turn: number): void {
    for (const state of this.#states) if (state.heedsFrom === Number.POSITIVE_INFINITY) state.heedsFrom = turn;
  }

  /** Milliseconds until the next of what is wanted may be fetched; undefined: nothing is wanted. */
  get dueIn(): number | undefined {
    const waits = this.#due().map(({ notBefore }) => notBefore);
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits) - this.#clock.monotonic());
  }

  /** Fetches what is wanted and may be. Never rejects. @returns whether anything was tried */
  async round(channel: Channel): Promise<boolean> {
    const now = this.#clock.monotonic();
    const due = this.#due().filter(({ notBefore }) => notBefore <= now);
    await this.#fetchAll(due, channel);
    return due.length > 0;
  }

  /**
   * Fetches these at once, whatever was said of them or went wrong before. Never rejects.
   * @returns those that could not be fetched
   */
  async now(names: ReadonlySet<RemoteName>, channel: Channel): Promise<readonly RemoteName[]> {
    const states = this.#states.filter(({ resource }) => names.has(resource.name));
    const went = await this.#fetchAll(states, channel);
    // Who asks so knows that there is news: that one is the same as before is no reason to wait the next time.
    for (const [at, state] of states.entries()) if (went[at] === true) this.#pause(state, 0);
    return states.flatMap(({ resource }, at) => (went[at] === true ? [] : [resource.name]));
  }

  /** Behind what is being fetched, which would else bring back what was erased. Never rejects. */
  async erase(): Promise<void> {
    await Promise.all(
      this.#states.map((state) => {
        const erased = state.running.then(() => this.#erase(state.resource));
        state.running = erased;
        return erased;
      }),
    );
  }

  /** Never rejects. */
  async #erase(resource: RemoteResource): Promise<void> {
    try {
      await resource.erase?.();
    } catch (error) {
      this.#log.error({ err: error, resource: resource.name }, 'what this node was given could not be erased; it is tried again');
    }
  }

  #due(): readonly FetchState[] {
    return this.#states.filter(({ resource }) => this.#wanted.has(resource.name));
  }

  /** @returns of each whether it went well */
  #fetchAll(states: readonly FetchState[], channel: Channel): Promise<readonly boolean[]> {
    return Promise.all(
      states.map((state) => {
        state.heedsFrom = Number.POSITIVE_INFINITY;
        this.#wanted.delete(state.resource.name);
        const fetched = state.running.then(() => this.#fetch(state, channel));
        state.running = fetched;
        return fetched;
      }),
    );
  }

  /** Never rejects. @returns whether it went well */
  async #fetch(state: FetchState, channel: Channel): Promise<boolean> {
    const { name } = state.resource;
    const before = state.resource.version();
    try {
      await state.resource.fetch(channel);
      state.fetched += 1;
      if (state.fault !== undefined) this.#log.info({ resource: name }, 'fetched from the control plane again');
      state.fault = undefined;
      // One that is still said to be stale though it was fetched is not fetched without a pause.
      this.#pause(state, state.resource.version() === before ? state.failures + 1 : 0);
      return true;
    } catch (error) {
      state.failed += 1;
      if (state.fault !== messageOf(error))
        this.#log.error({ err: error, resource: name }, 'what the control plane has could not be taken: the one before stays in force');
      state.fault = messageOf(error);
      this.#pause(state, state.failures + 1);
      return false;
    }
  }

  #pause(state: FetchState, failures: number): void {
    state.failures = failures;
    const ms = failures === 0 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
    state.notBefore = this.#clock.monotonic() + ms;
  }
}
