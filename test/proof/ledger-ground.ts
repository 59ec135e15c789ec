import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { type KeptSigningKey, openSigningKey } from '../../src/control-plane/pki/kept-signing-key.ts';
import { OrgLedgers } from '../../src/control-plane/state/org-ledgers.ts';
import type { LeafPlace } from '../../src/storage/contract/leaves.ts';
import { leafFiles } from '../../src/storage/drivers/leaf-files.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { oneSigner } from '../support/one-signer.ts';

/** Ledgers as the control plane has them, without the rest of it. */
export interface LedgerGround {
  readonly ledgers: OrgLedgers;
  readonly key: KeptSigningKey;
  readonly leaves: LeafPlace;
  close(): Promise<void>;
}

/** The orgs whose leaves are taken at once: one that is busy, and one beside it. */
export const LEDGER_ORGS = ['acme', 'other'] as const;

/** Opens what is in a folder, with the classes of the product. @param fsync `off` where no death is to be survived */
export async function openLedgerGround(dir: string, clock: Clock, fsync: 'always' | 'off'): Promise<LedgerGround> {
  mkdirSync(join(dir, 'leaves'), { recursive: true });
  const store = await openEmbeddedStore({ dir: join(dir, 'store'), fsync, clock, log: silentLogger });
  const key = await openSigningKey(join(dir, 'ledger-key.pem'), 'ledger');
  const leaves = leafFiles(join(dir, 'leaves'));
  const ledgers = await OrgLedgers.open(
    { store, place: leaves, signers: oneSigner(key.kid, key.key), clock, log: silentLogger },
    LEDGER_ORGS,
  );
  return {
    ledgers,
    key,
    leaves,
    async close() {
      await ledgers.close();
      await store.close();
    },
  };
}
