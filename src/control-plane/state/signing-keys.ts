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
  /** The next one signs as soon as it is stored, though its time may be that behind a clock which was ahead. */
  readonly at_once?: true;
}

export interface SigningKeysOptions {
  readonly use: SigningUse;
  readonly store: Pick<Store, 'entity' | 'commit'>;
  readonly files: KeyFiles<KeptSigningKey>;
  readonly audit: Pick<AuditTrail, 'commitFor'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** The latest time that something stored bears, milliseconds since the epoch; absent: what is signed has no time. */
  readonly latestSigned?: () => Promise<number>;
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
  /** A commit has ended and the store could not be asked what came of it. */
  #inDoubt = false;
  /** The latest time that was given out since the start, milliseconds since the epoch. */
  #latestAt = Number.NEGATIVE_INFINITY;
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
    await keys.#turn.take(() => keys.#settle(options.clock.now()));
    return keys;
  }

  /** Begins to look at the time. @param unaware how many nodes have not fetched the list of keys as it is now */
  start(unaware: () => number): void {
    this.#unaware = unaware;
    this.#job ??= every(this.#options, {
      everyMs: () => this.#lookInMs(),
      run: async () => {
        await this.#turn.take(() => this.#settle(this.#options.clock.now()));
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
   * Whose turn it is to sign at a time. Who asks while keys are changed waits for that: what a key has signed behind
   * its end would be refused for ever.
   * @param now milliseconds since the epoch
   * @returns the key, and the time that what it signs bears: never before the key began, though a clock was set back
   * @throws GatewayError `record_store_unavailable` when a switch that is due cannot be stored
   * @throws Error when the file of the key that the store names cannot be read
   */
  signerAt(now: number): Promise<{ readonly signer: KeptSigningKey; readonly at: number }> {
    return this.#turn.take(async () => {
      await this.#settle(now);
      const at = Math.max(now, beginOf(this.#ring.present));
      this.#latestAt = Math.max(this.#latestAt, at);
      return { signer: this.#signing, at };
    });
  }

  /**
   * Makes the next key.
   * @param switchAt when it signs, milliseconds since the epoch; what has passed means at once
   * @throws GatewayError `conflict` while there is one
   */
  async rotate(switchAt: number, commit: Commit): Promise<void> {
    const { clock, files, log, latestSigned } = this.#options;
    const made = this.#turn.take(async () => {
      await this.#settle(clock.now());
      const { next: before } = this.#ring;
      if (before !== undefined)
        throw new GatewayError(
          'conflict',
          `There is a next key (${before.kid}), which signs from ${before.not_before} on: cancel it first.`,
        );
      // A switch whose last step has failed left the key that signs where the next one is made.
      this.#signing = await files.present(this.kid);
      const kept = await files.makeNext();
      const stored = await latestSigned?.();
      const now = clock.now();
      // Behind all that was signed, also while a clock was ahead: it would be refused for ever.
      const from = Math.max(switchAt, now, beginOf(this.#ring.present) + 1, this.#latestAt + 1, (stored ?? this.#latestAt) + 1);
      const next = { ...kept.listed, not_before: timestamp(from) };
      const ring = { ...this.#ring, next: { ...next, endorsed_by: endorse(next, this.#signing) } };
      await this.#store(switchAt <= now ? { ...ring, at_once: true } : ring, commit);
      log.info({ use: this.use, kid: next.kid, not_before: next.not_before }, 'a next signing key was made');
      await this.#settle(now);
    });
    // Also where the switch could not be stored: then it is tried again.
    await made.finally(() => this.#job?.rearm());
    this.#warnEarly();
  }

  /** Gives the next key up. @throws GatewayError `conflict` where there is none, also because it signs already */
  async cancel(commit: Commit): Promise<void> {
    await this.#turn.take(async () => {
      await this.#settle(this.#options.clock.now());
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
    const { present, former } = this.#ring;
    await this.#store({ present, former }, commit);
    await this.#options.files.dropNext();
  }

  #isDue(now: number): boolean {
    return this.switchAt !== undefined && (this.#ring.at_once === true || this.switchAt <= now);
  }

  #lookInMs(): number | undefined {
    const { switchAt } = this;
    const now = this.#options.clock.now();
    if (switchAt === undefined) return undefined;
    return this.#isDue(now) ? 0 : Math.min(LOOK_MS, switchAt - now);
  }

  /**
   * Within the turn: the ring is the one that is stored, a switch that is due has taken place, and the key that signs
   * is the one that the ring names.
   */
  async #settle(now: number): Promise<void> {
    if (this.#inDoubt) await this.#reread();
    if (this.#isDue(now)) await this.#switch();
    if (this.#signing.kid !== this.kid) this.#signing = await this.#options.files.present(this.kid);
  }

  async #switch(): Promise<void> {
    const { files, log } = this.#options;
    const { present, next, former } = this.#ring;
    if (next === undefined) return;
    const signing = await files.next();
    if (signing?.kid !== next.kid)
      throw new Error(`the file of the next key (${next.kid}) is gone: restore it, or start again to give it up`);
    // Of the list before: that of afterwards nobody can have yet.
    const unaware = this.#unaware();
    const ended: ListedKey = { ...present, ...(next.not_before === undefined ? {} : { not_after: next.not_before }) };
    await this.#store({ present: next, former: [...former, ended] }, this.#byItself('switch'));
    log.info({ use: this.use, kid: next.kid, unaware_nodes: unaware }, 'the next signing key signs from now on');
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

  /** Within the turn. */
  async #store(ring: KeyRing, commit: Commit): Promise<void> {
    const place = { space: SPACE.signingKeys, key: this.use };
    this.#inDoubt = true;
    try {
      await commit(this.use, [{ op: 'put', ...place, value: ring }], [{ ...place, version: this.#version }]);
    } finally {
      // Also where the answer was lost: the store knows whether it took place.
      await this.#reread();
    }
    if (this.#signing.kid !== this.kid) this.#signing = await this.#options.files.present(this.kid);
  }

  async #reread(): Promise<void> {
    const found = await this.#options.store.entity(SPACE.signingKeys, this.use);
    this.#version = found?.version;
    this.#ring = (found?.value as KeyRing | undefined) ?? this.#ring;
    this.#inDoubt = false;
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
