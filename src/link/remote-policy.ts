import type { Events } from '../base/events/bus.ts';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { GatewayError, messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { decodeUtf8 } from '../base/lib/text.ts';
import { Turn } from '../base/lib/turn.ts';
import type { HealthWarning } from '../base/model/not-ready.ts';
import type { SignedBundle } from '../control-plane/proto/messages.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import { type Commit, commitAlone, type ToldChanges } from '../services/registers/commit.ts';
import type { Store } from '../storage/contract/store.ts';
import { BundleRefused, type ClaimedBundle, claimedBundle, signatureHolds } from './bundle-signature.ts';
import { HIGHEST_SEQUENCES, type HighestSequence, keptEffects, REMOTE_BUNDLES, readHighest, readKept } from './kept-bundle.ts';
import type { Channel, RemoteResource } from './link-ports.ts';
import type { RemoteKeys } from './remote-keys.ts';

export interface RemotePolicyOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  readonly policies: PolicyService;
  readonly keys: RemoteKeys;
  /** Of this gateway. */
  readonly orgId: string;
}

/**
 * The bundle of the control plane (decision 13.9). It comes into force when its signature holds over its exact bytes,
 * it is of this org, its sequence is not behind the highest that was ever taken, it loads and is stored; the kept one
 * goes through the same before a start uses it. One that does not changes nothing.
 */
export class RemotePolicy implements RemoteResource {
  readonly name = 'policy';
  readonly #options: RemotePolicyOptions;
  #inForce: ClaimedBundle | undefined;
  #commit: Commit;
  #highest: HighestSequence | undefined;
  #refused: BundleRefused | undefined;
  #refusedVersion: string | undefined;
  /** Fetching and clearing run one after the other. */
  readonly #turn = new Turn();

  private constructor(options: RemotePolicyOptions, highest: HighestSequence | undefined) {
    this.#options = options;
    this.#commit = commitAlone(options.store);
    this.#highest = highest;
  }

  /** Brings the bundle that was fetched last into force, if it may be used. Before the ports are opened. */
  static async open(options: RemotePolicyOptions): Promise<RemotePolicy> {
    const { store, orgId } = options;
    const policy = new RemotePolicy(options, readHighest(await store.get(HIGHEST_SEQUENCES, orgId)));
    await policy.#useKept();
    return policy;
  }

  /** From now on what is fetched is stored by this commit, which has an entry of the audit trail. */
  takeBy(commit: Commit): void {
    this.#commit = commit;
  }

  version(): string {
    return this.#inForce?.version ?? '';
  }

  /** What an operator should know: that the last bundle was not taken, that there is none. */
  warnings(): readonly HealthWarning[] {
    const refused = this.#refused;
    return [
      ...(refused === undefined
        ? []
        : [
            {
              code: 'policy_bundle_rejected',
              message: `A policy bundle of the control plane was not taken (${refused.fault}); what ran before runs on.`,
            },
          ]),
      ...(this.#inForce === undefined
        ? [{ code: 'no_bundle', message: 'There is no policy bundle of the control plane yet: everything is denied.' }]
        : []),
    ];
  }

  /**
   * An org without a bundle changes nothing.
   * @throws BundleRefused, ProtocolError, GatewayError `record_store_unavailable`; what runs then runs on
   */
  fetch(channel: Channel): Promise<void> {
    return this.#turn.take(async () => {
      const { bundle } = await channel.call('FetchBundle', {});
      if (bundle === null) return;
      await this.#refusing(bundle, () => this.#take(bundle, channel));
    });
  }

  /**
   * Forgets the kept bundle: the next start has none before it has fetched one. What runs runs on, and the highest
   * sequence is remembered.
   */
  clear(commit: Commit): Promise<void> {
    return this.#turn.take(() => commit(undefined, [{ op: 'delete', space: REMOTE_BUNDLES, key: this.#options.orgId }]));
  }

  async #useKept(): Promise<void> {
    const { store, orgId, log } = this.#options;
    const value = await store.get(REMOTE_BUNDLES, orgId);
    if (value === undefined) return;
    try {
      const kept = readKept(value);
      await this.#refusing(kept?.bundle, async () => {
        if (kept === undefined) throw new BundleRefused('malformed', 'what is kept of the bundle cannot be read');
        const claimed = await this.#checked(kept.bundle);
        await this.#bringIn(claimed, kept.fetchedAt, () => Promise.resolve());
      });
    } catch (error) {
      // Said where it was refused; anything else is a fault that must not keep the gateway from starting without it.
      if (!(error instanceof BundleRefused)) log.error({ err: error }, 'the bundle that was kept cannot be used');
    }
  }

  async #take(given: SignedBundle, channel: Channel): Promise<void> {
    const { clock } = this.#options;
    const claimed = await this.#checked(given, channel);
    const { sequence, sha256 } = claimed;
    // The same again: its effects are there already, unless what was kept of it has been cleared.
    if (this.#inForce?.sequence === sequence && this.#inForce.sha256 === sha256 && this.#inForce.version === claimed.version) return;
    const at = clock.now();
    await this.#bringIn(claimed, at, async (told) => {
      await this.#commit(claimed.version, keptEffects(claimed, timestamp(at)), [], [], await told());
    });
    this.#highest = { sequence, sha256 };
  }

  /** @param channel where keys are asked for that are not known; undefined: nowhere @throws BundleRefused */
  async #checked(given: SignedBundle, channel?: Channel): Promise<ClaimedBundle> {
    const { keys, orgId } = this.#options;
    const claimed = claimedBundle(given);
    if (claimed.orgId !== orgId) throw new BundleRefused('other_org', 'the bundle is of another org');
    if (channel !== undefined && keys.find('bundle', claimed.kid) === undefined) await keys.fetch(channel);
    const key = keys.find('bundle', claimed.kid);
    if (key === undefined)
      throw new BundleRefused('unknown_key', 'the bundle is signed with a key that the control plane does not list for bundles');
    if (!signatureHolds(claimed, key)) throw new BundleRefused('bad_signature', 'the signature of the bundle does not hold');
    const highest = this.#highest;
    if (highest !== undefined && claimed.sequence < highest.sequence)
      throw new BundleRefused('rollback', `the bundle has the sequence ${claimed.sequence}, and ${highest.sequence} was taken before`);
    if (highest?.sequence === claimed.sequence && highest.sha256 !== claimed.sha256)
      throw new BundleRefused('sequence_reused', `another bundle of the sequence ${claimed.sequence} was taken before`);
    return claimed;
  }

  async #bringIn(claimed: ClaimedBundle, fetchedAt: number, store: (told: () => Promise<ToldChanges>) => Promise<void>): Promise<void> {
    const text = decodeUtf8(claimed.bytes);
    if (typeof text !== 'string') throw new BundleRefused('malformed', 'the bundle is not UTF-8 text');
    try {
      const { version, sequence, kid } = claimed;
      await this.#options.policies.takeFetched({ bundle_yaml: text, fetched_at: fetchedAt, signed: { version, sequence, kid } }, store);
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'invalid_policy')
        // biome-ignore lint/style/useErrorCause: the cause is in the third argument
        throw new BundleRefused('invalid_policy', 'the bundle does not load; the log has every mistake', { cause: error });
      throw error;
    }
    this.#inForce = claimed;
  }

  /** What is refused is counted, told to operators, and logged once. */
  async #refusing(given: SignedBundle | undefined, take: () => Promise<void>): Promise<void> {
    const { events, log } = this.#options;
    try {
      await take();
      this.#refused = undefined;
    } catch (error) {
      if (!(error instanceof BundleRefused)) throw error;
      events.emit('bundleRejected', error.fault);
      const isNews = this.#refused?.message !== error.message || this.#refusedVersion !== given?.version;
      this.#refused = error;
      this.#refusedVersion = given?.version;
      const { version, sequence, kid } = given ?? {};
      const mistakes = error.cause === undefined ? {} : { mistakes: messageOf(error.cause) };
      if (isNews)
        log.error(
          { reason: error.fault, version, sequence, kid, ...mistakes },
          `a policy bundle of the control plane was not taken: ${error.message}`,
        );
      throw error;
    }
  }
}
