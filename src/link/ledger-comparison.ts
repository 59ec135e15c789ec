import type { Logger } from '../base/lib/log.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import { jsonIn, LedgerError } from '../ledger/ledger-error.ts';
import { type CutSpan, cutBy, cutText } from '../ledger/ledger-restore.ts';
import { checkSignature, readRoot } from '../ledger/merkle-root.ts';
import type { Channel } from './link-ports.ts';
import type { RemoteKeys } from './remote-keys.ts';

export interface LedgerComparisonOptions {
  readonly keys: Pick<RemoteKeys, 'find' | 'windowOf' | 'fetch'>;
  /** Whose ledger it is. */
  readonly orgId: string;
  readonly log: Logger;
}

/** How the ledger of the control plane stands. */
export interface ComparedLedger {
  /** Its newest root as it was sent, to be shown to it again; empty: it has none. */
  readonly newest: string;
  /** The last restore that it says, in a root that it has signed; undefined: none that counts. */
  readonly restore: CutSpan | undefined;
}

/**
 * Shows the control plane the newest root that it has ever shown to this gateway (decision 13.23): one that does not
 * know it was put back from a backup, and learns it before it signs the same sequence again. In return the gateway
 * hears of restores.
 */
export class LedgerComparison {
  readonly #options: LedgerComparisonOptions;
  /** What was told of a restore that does not count: once. */
  #doubted: string | undefined;

  constructor(options: LedgerComparisonOptions) {
    this.#options = options;
  }

  /**
   * @param seen the newest root that it showed before; empty: none
   * @returns undefined where it takes no comparison: it is of an earlier version
   * @throws ProtocolError; Error when it knows less than it had shown
   */
  async compare(channel: Pick<Channel, 'call'>, seen: string): Promise<ComparedLedger | undefined> {
    try {
      const { newest_root: newest, restore_root: restore, behind } = await channel.call('CompareLedger', { newest_root: seen });
      if (behind)
        throw new Error(
          'the control plane does not know a root that it has signed: it was put back from a backup, and takes no hashes until that is declared (gw control-plane restored)',
        );
      return { newest, restore: restore === '' ? undefined : await this.#checked(restore, channel) };
    } catch (error) {
      if (error instanceof ProtocolError && error.fault === 'UNIMPLEMENTED') return undefined;
      throw error;
    }
  }

  /**
   * What nobody has signed with the key of the ledger is no restore.
   * @throws ProtocolError where keys cannot be fetched
   */
  async #checked(text: string, channel: Pick<Channel, 'call'>): Promise<CutSpan | undefined> {
    const { keys, orgId, log } = this.#options;
    try {
      const root = readRoot(jsonIn(text, 'root'));
      if (root.org_id !== orgId) throw new LedgerError(`its root is of another org (${root.org_id})`);
      if (keys.find('ledger', root.sig.kid) === undefined) await keys.fetch(channel);
      checkSignature(root, { find: (kid) => keys.find('ledger', kid), windowOf: (kid) => keys.windowOf('ledger', kid) });
      return cutBy(root);
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      if (this.#doubted !== text)
        log.error({ err: error, org_id: orgId }, 'the control plane says that its ledger was restored, and does not prove it');
      this.#doubted = text;
      return undefined;
    }
  }

  /** Says that hashes are handed in again. */
  tell(cut: CutSpan): void {
    const { orgId, log } = this.#options;
    log.warn(
      { org_id: orgId, restored_from: cut.from_sequence, restored_with: cut.sequence, declared_at: cut.at, restore_reason: cut.reason },
      `the ledger of the control plane was restored from a backup, and all hashes are handed in again: ${cutText(cut)}`,
    );
  }
}
