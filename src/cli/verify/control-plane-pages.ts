import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { type ConsistencyProof, readConsistency } from '../../ledger/consistency-proof.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import {
  type ListedTimestamp,
  type PublishedCheckpoint,
  readKeyList,
  readProofAnswer,
  readPublished,
  readRootsPage,
  readTimestampsPage,
} from '../../ledger/ledger-answers.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { type ListedLogEntry, readLogEntriesPage } from '../../ledger/root-entry.ts';
import { type CliIo, GatewayRefusal, Unusable, UsageError } from '../command.ts';
import { GatewayAddress } from '../gateway-address.ts';
import { errorOf, sendToGateway } from '../gateway-client.ts';

const NOT_FOUND = 404;
/** What it knows of a hash that is under no root yet. */
const CONFLICT = 409;

/**
 * What anybody may read of a control plane, without a token: roots, proofs and keys (decision 13.6). Its certificate is
 * trusted as the runtime trusts.
 */
export class ControlPlanePages {
  readonly #base: GatewayAddress;

  /** @param option that the address was given with @throws UsageError */
  constructor(text: string, option: string, io: Pick<CliIo, 'env'>) {
    const protocol = URL.canParse(text) ? new URL(text).protocol : '';
    if (protocol !== 'http:' && protocol !== 'https:')
      throw new UsageError(`${option} takes the address of a control plane, such as http://127.0.0.1:7444`);
    this.#base = new GatewayAddress(text, { tlsCertFile: undefined }, io.env);
  }

  get origin(): string {
    return this.#base.origin;
  }

  /** The ledger keys that it lists. @throws Unusable, GatewayRefusal; LedgerError for what is no list of keys */
  async keys(): Promise<readonly ListedKey[]> {
    return readKeyList(await this.#json('keys'));
  }

  /**
   * Roots behind a sequence, in order; undefined: there is no such org.
   * @throws Unusable, GatewayRefusal; LedgerError for what is no root
   */
  async roots(orgId: string, after: number): Promise<readonly MerkleRoot[] | undefined> {
    const page = await this.#found(`orgs/${encodeURIComponent(orgId)}/roots?after=${after}`);
    return page === undefined ? undefined : readRootsPage(page);
  }

  /** What a gateway would answer about a hash. @throws as {@link roots} */
  async proof(orgId: string, hash: string): Promise<unknown> {
    const answer = await this.#found(`orgs/${encodeURIComponent(orgId)}/proofs/${hash}`, [NOT_FOUND, CONFLICT]);
    const { proof } = answer === undefined ? {} : readProofAnswer(answer);
    if (proof === undefined) return { status: 'pending_inclusion', record_hash: hash };
    return { status: 'verified', record_hash: hash, inclusion_proof: proof };
  }

  /**
   * That the tree of one root goes on in that of a later one; undefined: it shows none.
   * @throws as {@link roots}
   */
  async consistency(orgId: string, first: number, second: number): Promise<ConsistencyProof | undefined> {
    const answer = await this.#found(`orgs/${encodeURIComponent(orgId)}/consistency?first=${first}&second=${second}`, [
      NOT_FOUND,
      CONFLICT,
    ]);
    return answer === undefined ? undefined : readConsistency(answer);
  }

  /** Time stamps behind the root of a sequence, in order; none where it has no such list. @throws as {@link roots} */
  async timestamps(orgId: string, after: number): Promise<readonly ListedTimestamp[]> {
    const page = await this.#found(`orgs/${encodeURIComponent(orgId)}/timestamps?after=${after}`);
    return page === undefined ? [] : readTimestampsPage(page);
  }

  /** Entries of roots in a log, as {@link timestamps}. */
  async logEntries(orgId: string, after: number): Promise<readonly ListedLogEntry[]> {
    const page = await this.#found(`orgs/${encodeURIComponent(orgId)}/log-entries?after=${after}`);
    return page === undefined ? [] : readLogEntriesPage(page);
  }

  /**
   * The published checkpoint, or with `cosigned` the newest with so many cosignatures; undefined: there is none.
   * @throws as {@link roots}
   */
  async checkpoint(orgId: string, cosigned?: number): Promise<PublishedCheckpoint | undefined> {
    const query = cosigned === undefined ? '' : `&cosigned=${cosigned}`;
    const answer = await this.#found(`orgs/${encodeURIComponent(orgId)}/checkpoint?format=json${query}`, [NOT_FOUND, CONFLICT]);
    return answer === undefined ? undefined : readPublished(answer);
  }

  /** Hands in a cosignature. @throws Unusable, GatewayRefusal */
  async cosign(orgId: string, sequence: number, cosignature: string): Promise<void> {
    await this.#json(`orgs/${encodeURIComponent(orgId)}/cosignatures`, { sequence, cosignature });
  }

  async #found(path: string, absent: readonly number[] = [NOT_FOUND]): Promise<unknown> {
    try {
      return await this.#json(path);
    } catch (error) {
      if (error instanceof GatewayRefusal && absent.includes(error.status)) return undefined;
      throw error;
    }
  }

  async #json(path: string, body?: object): Promise<unknown> {
    const prefix = this.#base.pathname.replace(/\/+$/, '');
    const { status, text } = await sendToGateway(this.#base, `${prefix}/v1/${path}`, {
      ...(body === undefined ? { method: 'GET' } : { method: 'POST', body }),
      headers: {},
    });
    if (status !== 200) throw new GatewayRefusal(status, errorOf(text).code, errorOf(text).message || `${this.origin} answered ${status}`);
    try {
      return unambiguousJson(text);
    } catch (error) {
      if (!(error instanceof AmbiguousJsonError)) throw error;
      throw new Unusable(`${this.origin}/v1/${path}: ${error.message}: is it a control plane?`, { cause: error });
    }
  }
}
