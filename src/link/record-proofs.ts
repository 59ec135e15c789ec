import type { Clock } from '../base/lib/clock.ts';
import { GatewayError, messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { Lru } from '../base/lib/lru.ts';
import type { ControlPlaneCalls } from '../control-plane/proto/messages.ts';
import { checkInclusion, type InclusionProof, readProof } from '../ledger/inclusion-proof.ts';
import { jsonIn, LedgerError } from '../ledger/ledger-error.ts';
import { type CutSpan, cutOver } from '../ledger/ledger-restore.ts';
import { checkSignature, type LedgerKeys } from '../ledger/merkle-root.ts';
import type { HashSubmission } from './hash-submission.ts';
import type { Channel } from './link-ports.ts';
import type { RemoteKeys } from './remote-keys.ts';

/** Proofs that are kept; each is some 2 KB. */
const KEPT = 4_096;
/** A key that is not known is asked for, and not more often than that. */
const KEYS_MS = 10_000;

export type RecordInclusion =
  | { readonly status: 'pending_inclusion' }
  | {
      readonly status: 'verified';
      readonly inclusion_proof: InclusionProof;
      /** The restore that has cut the span of this proof, which stays until there is another one (decision 13.23). */
      readonly cut_by_restore?: CutSpan;
    };

export interface RecordProofsOptions {
  readonly channel: Pick<Channel, 'call'>;
  readonly submission: Pick<HashSubmission, 'acknowledged' | 'sendAgain' | 'cuts'>;
  readonly keys: Pick<RemoteKeys, 'find' | 'windowOf' | 'fetch'>;
  /** In whose ledger the hashes are. */
  readonly orgId: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Brings the proofs of records from the control plane, and checks each here before anybody is told that something is
 * verified (decision 13.3).
 */
export class RecordProofs {
  readonly #options: RecordProofsOptions;
  readonly #kept = new Lru<string, InclusionProof>({ max: KEPT });
  #keysAt: number | undefined;

  constructor(options: RecordProofsOptions) {
    this.#options = options;
  }

  /**
   * What can be proven of a record.
   * @param record its id and its hash, lower-case hex
   * @throws GatewayError `control_plane_unreachable` where nobody can be asked; `ledger_proof_invalid` for a proof that
   * proves nothing
   */
  async inclusion(record: { readonly id: string; readonly hash: string }): Promise<RecordInclusion> {
    const kept = this.#kept.get(record.hash);
    if (kept === undefined) return this.#find(record);
    const cut = cutOver(this.#options.submission.cuts, kept.root.sequence);
    if (cut === undefined) return { status: 'verified', inclusion_proof: kept };
    const before: RecordInclusion = { status: 'verified', inclusion_proof: kept, cut_by_restore: cut };
    try {
      const found = await this.#find(record);
      return found.status === 'verified' ? found : before;
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'control_plane_unreachable') return before;
      throw error;
    }
  }

  async #find(record: { readonly id: string; readonly hash: string }): Promise<RecordInclusion> {
    const { submission } = this.#options;
    if (!(await submission.acknowledged(record.id))) return { status: 'pending_inclusion' };
    const { status, inclusion_proof: text } = await this.#ask(record.hash);
    if (status === 'unknown') void submission.sendAgain().catch((error: unknown) => this.#warn(error));
    if (status !== 'verified') return { status: 'pending_inclusion' };
    const proof = await this.#checked(text, record.hash);
    this.#kept.set(record.hash, proof);
    return { status: 'verified', inclusion_proof: proof };
  }

  async #checked(text: string, hash: string): Promise<InclusionProof> {
    try {
      const proof = readProof(jsonIn(text, 'proof'));
      checkInclusion(proof, hash);
      const { root } = proof;
      if (root.org_id !== this.#options.orgId) throw new LedgerError(`proof: its root is of another org (${root.org_id})`);
      checkSignature(root, await this.#keysWith(root.sig.kid));
      return proof;
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      this.#options.log.error({ err: error, record_hash: hash }, 'the control plane has sent a proof that proves nothing');
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('ledger_proof_invalid', `The control plane has sent a proof that proves nothing: ${error.message}`, {
        cause: error,
      });
    }
  }

  /** The control plane's keys; asked for anew when there is one that is not known yet. */
  async #keysWith(kid: string): Promise<LedgerKeys> {
    const { channel, clock, keys } = this.#options;
    const known: LedgerKeys = { find: (name) => keys.find('ledger', name), windowOf: (name) => keys.windowOf('ledger', name) };
    const now = clock.monotonic();
    if (known.find(kid) !== undefined || (this.#keysAt !== undefined && now - this.#keysAt < KEYS_MS)) return known;
    try {
      await keys.fetch(channel);
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error instanceof GatewayError ? error : unreachable(error);
      this.#keysAt = now;
      throw error;
    }
    this.#keysAt = now;
    return known;
  }

  async #ask(hash: string): Promise<ControlPlaneCalls['FetchProof']['response']> {
    try {
      return await this.#options.channel.call('FetchProof', { hash: Buffer.from(hash, 'hex') });
    } catch (error) {
      throw unreachable(error);
    }
  }

  #warn(error: unknown): void {
    this.#options.log.warn({ err: error }, 'hashes could not be handed in again');
  }
}

function unreachable(error: unknown): GatewayError {
  return new GatewayError('control_plane_unreachable', `The control plane did not answer: ${messageOf(error)}`, { cause: error });
}
