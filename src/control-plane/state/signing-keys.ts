import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import { endorse } from '../../ledger/key-endorsement.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import type { AuditTrail } from '../../services/orgs/audit-trail.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { KeptSigningKey } from '../pki/kept-signing-key.ts';
import type { KeyFiles } from '../pki/key-files.ts';

import { SPACE } from './control-plane-spaces.ts';
import type { ShownKey, SigningUse } from './control-plane-state.ts';

/** A time of day that is set is noticed within this. */
const LOOK_MS = 60_000;
const DAY_MS = 86_400_000;

/** Which keys of one use there are, as the store has them: the public halves (decision 13.18). */
interface KeyRing {
  readonly present: ListedKey;
  /** It signs from its `not_before` on. */
  readonly next?: ListedKey;
  /** The oldest first. */
  readonly former: readonly ListedKey[];
}

export interface SigningKeysOptions {
  readonly use: SigningUse;
  readonly store: Pick<Store, 'entity' | 'commit'>;
  readonly files: KeyFiles<KeptSigningKey>;
  readonly audit: Pick<AuditTrail, 'commitFor'>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The keys of one use: the one that signs, the next one, which is listed from the moment that it is made, and former
 * ones. What the store says counts: a switch is one commit, with its entry in the audit trail (decision 13.18).
 */
export class SigningKeys {
  readonly use: SigningUse;
  readonly #options: SigningKeysOptions;
  readonly #turn = new Turn();
  readonly #listeners = new Set<() => void>();
  #ring: KeyRing;
  /** Of the ring in the store. */
  #version: string | undefined;
  #signing: KeptSigningKey;
  #job: RunningJob | undefined;
  #unaware: () => number = () => 0;
  #warnedOf: string | undefined;

  private constructor(options: SigningKeysOptions, ring: KeyRing, version: string | undefined, signing: KeptSigningKey) {
    this.use = options.use;
    this.#options = options;
    this.#ring = ring;
    this.#version = version;
    this.#signing = signing;
  }

  /**
   * Also finishes what an end of the process has left between store and files.
   * @throws Error when the files do not hold the key that the store knows, or others can read them
   */
  static async open(options: SigningKeysOptions): Promise<SigningKeys> {
    const { store, files, use, log } = options;
    const found = await store.entity(SPACE.signingKeys, use);
    const stored = found?.value as KeyRing | undefined;
    const signing = await files.present(stored?.present.kid);
    const keys = new SigningKeys(options, stored ?? { present: signing.listed, former: [] }, found?.version, signing);
    const next = await files.next();
    if (next !== undefined && next.kid !== stored?.next?.kid) await files.dropNext();
    if (stored?.next !== undefined && next?.kid !== stored.next.kid) {
      log.error(
        { use, kid: stored.next.kid },
        'the next signing key is not in its file: the rotation is given up, and the present key signs on',
      );
      await keys.#giveUp(keys.#byItself('cancel'));
    }
    await keys.#switchIfDue();
    return keys;
  }

  /** Begins to look at the time. @param unaware how many nodes have not fetched the list of keys as it is now */
  start(unaware: () => number): void {
    this.#unaware = unaware;
    this.#job ??= every(this.#options, {
      everyMs: () => this.#lookInMs(),
      run: async () => {
        await this.#switchIfDue();
        this.#warnEarly();
      },
      failed: 'the signing key could not be replaced by the next one; it is tried again',
      failedLevel: 'error',
    });
  }

  async stop(): Promise<void> {
    await this.#job?.stop();
    await this.#turn.over();
  }

  /** Told when other keys are listed, or another one signs. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  get kid(): string {
    return this.#ring.present.kid;
  }

  /** The first key that there was: it never changes, where former ones stay listed. */
  get firstKid(): string {
    return (this.#ring.former[0] ?? this.#ring.present).kid;
  }

  get formerKids(): ReadonlySet<string> {
    return new Set(this.#ring.former.map(({ kid }) => kid));
  }

  /** When the next key signs, milliseconds since the epoch; undefined: there is none. */
  get switchAt(): number | undefined {
    const { next } = this.#ring;
    return next && beginOf(next);
  }

  /** All of them: the one that signs first, then the next one, then former ones, the newest first. */
  listed(): readonly ShownKey[] {
    const { present, next, former } = this.#ring;
    return [
      { ...present, state: 'current' },
      ...(next === undefined ? [] : [{ ...next, state: 'next' } as const]),
      ...former.map((key) => ({ ...key, state: 'former' }) as const).reverse(),
    ];
  }

  /**
   * Whose turn it is to sign at a time.
   * @param now milliseconds since the epoch
   * @returns the key, and the time that what it signs bears: never before the key began, though a clock was set back
   * @throws GatewayError `record_store_unavailable` when a switch that is due cannot be stored
   */
  async signerAt(now: number): Promise<{ readonly signer: KeptSigningKey; readonly at: number }> {
    if (this.#isDue(now)) await this.#switchIfDue();
    return { signer: this.#signing, at: Math.max(now, beginOf(this.#ring.present)) };
  }

  /**
   * Makes the next key.
   * @param switchAt when it signs, milliseconds since the epoch; what has passed means at once
   * @throws GatewayError `conflict` while there is one
   */
  async rotate(switchAt: number, commit: Commit): Promise<void> {
    const { clock, files } = this.#options;
    await this.#turn.take(async () => {
      const { next: before } = this.#ring;
      if (before !== undefined)
        throw new GatewayError(
          'conflict',
          `There is a next key (${before.kid}), which signs from ${before.not_before} on: cancel it first.`,
        );
      // A switch whose last step has failed left the key that signs where the next one is made.
      await files.present(this.kid);
      const made = await files.makeNext();
      const from = Math.max(switchAt, clock.now(), beginOf(this.#ring.present) + 1);
      const next = { ...made.listed, not_before: timestamp(from) };
      await this.#store({ ...this.#ring, next: { ...next, endorsed_by: endorse(next, this.#signing) } }, commit);
    });
    this.#options.log.info(
      { use: this.use, kid: this.#ring.next?.kid, not_before: this.#ring.next?.not_before },
      'a next signing key was made',
    );
    this.#job?.rearm();
    await this.#switchIfDue();
    this.#warnEarly();
  }

  /** Gives the next key up. @throws GatewayError `conflict` where there is none, also because it signs already */
  async cancel(commit: Commit): Promise<void> {
    await this.#turn.take(async () => {
      const { next } = this.#ring;
      if (next === undefined || this.#isDue(this.#options.clock.now()))
        throw new GatewayError('conflict', 'There is no next key that does not sign yet.');
      await this.#giveUp(commit);
      this.#options.log.info({ use: this.use, kid: next.kid }, 'the next signing key was given up');
    });
  }

  /** Lists former keys no longer. @throws GatewayError `conflict` where there is none, and of the ledger */
  async finish(commit: Commit): Promise<void> {
    await this.#turn.take(async () => {
      if (this.use === 'ledger')
        throw new GatewayError('conflict', 'Former keys of the ledger stay listed: roots that they have signed are verified by them.');
      if (this.#ring.former.length === 0) throw new GatewayError('conflict', 'There is no former key.');
      await this.#store({ ...this.#ring, former: [] }, commit);
    });
  }

  async #giveUp(commit: Commit): Promise<void> {
    const { next: _given, ...rest } = this.#ring;
    await this.#store(rest, commit);
    await this.#options.files.dropNext();
  }

  #isDue(now: number): boolean {
    return this.switchAt !== undefined && this.switchAt <= now;
  }

  #lookInMs(): number | undefined {
    const { switchAt } = this;
    return switchAt === undefined ? undefined : Math.min(LOOK_MS, Math.max(0, switchAt - this.#options.clock.now()));
  }

  async #switchIfDue(): Promise<void> {
    const { clock, files, log } = this.#options;
    const switched = await this.#turn.take(async () => {
      const { present, next, former } = this.#ring;
      if (next === undefined || !this.#isDue(clock.now())) return undefined;
      const signing = await files.next();
      if (signing?.kid !== next.kid)
        throw new Error(`the file of the next key (${next.kid}) is gone: restore it, or start again to give it up`);
      const ended: ListedKey = { ...present, ...(next.not_before === undefined ? {} : { not_after: next.not_before }) };
      await this.#store({ present: next, former: [...former, ended] }, this.#byItself('switch'));
      return next.kid;
    });
    if (switched === undefined) return;
    const unaware = this.#unaware();
    log.info({ use: this.use, kid: switched, unaware_nodes: unaware }, 'the next signing key signs from now on');
    for (const listener of this.#listeners) listener();
  }

  /** Within the last day, once for each rotation: that somebody should look why nodes have not heard of the key. */
  #warnEarly(): void {
    const { clock, log } = this.#options;
    const { next } = this.#ring;
    const unaware = this.#unaware();
    if (next === undefined || unaware === 0 || this.#warnedOf === next.kid || beginOf(next) - clock.now() > DAY_MS) return;
    this.#warnedOf = next.kid;
    log.warn(
      { use: this.use, kid: next.kid, not_before: next.not_before, unaware_nodes: unaware },
      'a next signing key is about to sign, and nodes have not heard of it: they fetch it when they are back (gw control-plane keys status)',
    );
  }

  async #store(ring: KeyRing, commit: Commit): Promise<void> {
    const { store, files } = this.#options;
    const place = { space: SPACE.signingKeys, key: this.use };
    try {
      await commit(this.use, [{ op: 'put', ...place, value: ring }], [{ ...place, version: this.#version }]);
    } finally {
      // Also where the answer was lost: the store knows whether it took place.
      const found = await store.entity(place.space, place.key);
      this.#version = found?.version;
      this.#ring = (found?.value as KeyRing | undefined) ?? this.#ring;
      if (this.#ring.present.kid !== this.#signing.kid) this.#signing = await files.present(this.#ring.present.kid);
    }
    for (const listener of this.#listeners) listener();
  }

  /** For what happens by the clock, and at a start. */
  #byItself(what: 'switch' | 'cancel'): Commit {
    return this.#options.audit.commitFor({
      principal: { kind: 'node', id: 'control-plane' },
      operation: `keys.${what}`,
      from: '127.0.0.1',
    });
  }
}

/** Milliseconds since the epoch; of the first key of all times. */
function beginOf({ not_before: from }: ListedKey): number {
  return from === undefined ? Number.NEGATIVE_INFINITY : Date.parse(from);
}
