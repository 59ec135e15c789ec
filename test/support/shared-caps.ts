import type { Clock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { NodeCaps } from '../../src/services/money/node-caps.ts';
import type { SharedLedger } from '../../src/services/money/shared-ledger.ts';
import type { CarriedJournal } from '../../src/storage/postgres/journal-carrier.ts';
import type { PostgresStore } from '../../src/storage/postgres/postgres-store.ts';

/** The ledger of a node whose journal is carried into a database. */
export function ledgerOf(store: PostgresStore, node: string, journal: CarriedJournal): SharedLedger {
  const carrier = store.carrier({ node, incarnation: `folder of ${node}` });
  carrier.catch(() => undefined);
  return { exchange: async (speaker) => (await carrier).exchange(journal, speaker) };
}

export function nodeCaps(ledger: SharedLedger, clock: Clock): NodeCaps {
  return new NodeCaps({ ledger, clock, log: silentLogger });
}
