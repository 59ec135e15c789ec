import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { KeyFiles } from '../pki/key-files.ts';
import type { NodeAuthority } from '../pki/node-authority.ts';
import { SPACE } from './control-plane-spaces.ts';
import type { ShownAuthority } from './control-plane-state.ts';

const KEY = 'ca';
/** A time of day that is set is noticed within this. */
const LOOK_MS = 60_000;

/** Which CAs there are, as the store has them (decision 13.20). */
interface StoredAuthorities {
  /** By its name. */
  readonly present: string;
  readonly next?: { readonly kid: string; readonly switch_at: string };
}

export interface NodeAuthoritiesOptions {
  readonly store: Pick<Store, 'entity' | 'commit'>;
  readonly files: KeyFiles<NodeAuthority>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The CA of a control plane, and the one that is to follow it. Nodes trust both from the moment that the next one is
 * made; from its time on it signs their certificates. That of the control plane itself is of the former one until the
 * rotation is finished, so that a node which was away the whole time still knows whom it talks to (decision 13.20).
 */
export class NodeAuthorities {
  readonly #options: NodeAuthoritiesOptions;
  readonly #turn = new Turn();
  readonly #listeners: (() => Maybe<void>)[] = [];
  #stored: StoredAuthorities | undefined;
  #version: string | undefined;
  #present: NodeAuthority;
  #next: NodeAuthority | undefined;
  /** The next one signs the certificate of the control plane already, because the rotation is about to be finished. */
  #finishing = false;
  #job: RunningJob | undefined;

  private constructor(options: NodeAuthoritiesOptions, present: NodeAuthority) {
    this.#options = options;
    this.#present = present;
  }

  /**
   * Also finishes what an end of the process has left between store and files.
   * @throws Error when the files do not hold the CAs that the store knows
   */
  static async open(options: NodeAuthoritiesOptions): Promise<NodeAuthorities> {
    const { store, files } = options;
    const found = await store.entity(SPACE.signingKeys, KEY);
    const stored = found?.value as StoredAuthorities | undefined;
    const all = new NodeAuthorities(options, await files.present(stored?.present));
    all.#stored = stored;
    all.#version = found?.version;
    const next = await files.next();
    if (next !== undefined && next.kid !== stored?.next?.kid) await files.dropNext();
    else all.#next = next;
    if (stored?.next !== undefined && all.#next === undefined)
      throw new Error(
        `the file of the next CA (${stored.next.kid}) is gone, and nodes may have certificates of it: restore it from a backup`,
      );
    all.#job = every(options, {
      everyMs: () => all.#lookInMs(),
      run: () => all.#told(),
      failed: 'the next CA could not be told of',
    });
    return all;
  }

  /** Told when others are trusted or sign; a change waits for them. */
  onChange(listener: () => Maybe<void>): void {
    this.#listeners.push(listener);
  }

  /** Signs the certificate that the control plane shows. */
  get ofServer(): NodeAuthority {
    return this.#finishing ? (this.#next ?? this.#present) : this.#present;
  }

  /** Signs certificates of nodes now. */
  get ofNodes(): NodeAuthority {
    return this.#isSwitched ? (this.#next ?? this.#present) : this.#present;
  }

  /** Whom nodes and the control plane trust, the one that signs certificates of nodes first. */
  get trusted(): readonly NodeAuthority[] {
    const { ofNodes } = this;
    return [ofNodes, ...[this.#present, ...(this.#next === undefined ? [] : [this.#next])].filter((one) => one !== ofNodes)];
  }

  /** PEM, that of the control plane's certificate first. */
  get pem(): string {
    const { ofServer } = this;
    return [ofServer, ...this.trusted.filter((one) => one !== ofServer)].map(({ certificatePem }) => certificatePem).join('');
  }

  /** When the next one signs, milliseconds since the epoch; undefined: there is none that does not sign yet. */
  get switchAt(): number | undefined {
    return this.#isSwitched || this.#switchTime === undefined ? undefined : this.#switchTime;
  }

  /** True once there is a former one. */
  get isSwitched(): boolean {
    return this.#isSwitched;
  }

  shown(): readonly ShownAuthority[] {
    const { ofNodes } = this;
    return this.trusted.map((one) => ({
      kid: one.kid,
      alg: 'ecdsa-p256',
      use: 'ca',
      public_key: one.certificate.toString('base64'),
      state: one === ofNodes ? 'current' : this.#isSwitched ? 'former' : 'next',
      ...(one === this.#next && this.#stored?.next !== undefined ? { not_before: this.#stored.next.switch_at } : {}),
    }));
  }

  /** @throws GatewayError `conflict` while there is a next or a former one */
  async rotate(switchAt: number, commit: Commit): Promise<void> {
    const { files, clock, log } = this.#options;
    await this.#turn.take(async () => {
      if (this.#next !== undefined)
        throw new GatewayError(
          'conflict',
          `There are two CAs already (${this.#present.kid}, ${this.#next.kid}): cancel or finish that rotation first.`,
        );
      // An end of a rotation whose last step has failed left the CA that counts where the next one is made.
      if (this.#stored !== undefined) await files.present(this.#present.kid);
      const next = await files.makeNext();
      const at = timestamp(Math.max(switchAt, clock.now()));
      await this.#store({ present: this.#present.kid, next: { kid: next.kid, switch_at: at } }, commit, next);
      log.info({ kid: next.kid, switch_at: at }, 'a next CA was made');
      await this.#told();
    });
    this.#job?.rearm();
  }

  /** @throws GatewayError `conflict` where there is none, also because it signs already */
  async cancel(commit: Commit): Promise<void> {
    await this.#turn.take(async () => {
      if (this.#next === undefined || this.#isSwitched) throw new GatewayError('conflict', 'There is no next CA that does not sign yet.');
      await this.#store({ present: this.#present.kid }, commit);
      await this.#options.files.dropNext();
      await this.#told();
    });
  }

  /** The former one is trusted no longer. @throws GatewayError `conflict` where there is none */
  async finish(commit: Commit): Promise<void> {
    const { files, log } = this.#options;
    await this.#turn.take(async () => {
      const next = this.#next;
      if (next === undefined || !this.#isSwitched) throw new GatewayError('conflict', 'There is no former CA.');
      try {
        // The control plane shows a certificate that those know who will trust the next CA alone, before they do.
        this.#finishing = true;
        await this.#told();
        await this.#store({ present: next.kid }, commit);
        await files.present(next.kid);
        log.info({ kid: next.kid }, 'the former CA is trusted no longer');
      } finally {
        this.#finishing = false;
        await this.#told();
      }
    });
  }

  async stop(): Promise<void> {
    await this.#job?.stop();
    await this.#turn.over();
  }

  get #switchTime(): number | undefined {
    const { next } = this.#stored ?? {};
    return next && Date.parse(next.switch_at);
  }

  get #isSwitched(): boolean {
    return this.#next !== undefined && this.#switchTime !== undefined && this.#switchTime <= this.#options.clock.now();
  }

  #lookInMs(): number | undefined {
    const { switchAt } = this;
    return switchAt === undefined ? undefined : Math.min(LOOK_MS, Math.max(0, switchAt - this.#options.clock.now()));
  }

  async #told(): Promise<void> {
    for (const listener of this.#listeners) await listener();
  }

  /** @param made the next CA, where there was none */
  async #store(value: StoredAuthorities, commit: Commit, made?: NodeAuthority): Promise<void> {
    const { store } = this.#options;
    const place = { space: SPACE.signingKeys, key: KEY };
    try {
      await commit(KEY, [{ op: 'put', ...place, value }], [{ ...place, version: this.#version }]);
    } finally {
      // Also where the answer was lost: the store knows whether it took place.
      const found = await store.entity(place.space, place.key);
      this.#version = found?.version;
      // In one step with what the store says: nobody meets a CA that it does not name.
      this.#stored = found?.value as StoredAuthorities | undefined;
      const known = [this.#present, this.#next, made];
      const named = (kid: string | undefined) => known.find((one) => one !== undefined && one.kid === kid);
      this.#present = named(this.#stored?.present) ?? this.#present;
      this.#next = named(this.#stored?.next?.kid);
    }
  }
}
