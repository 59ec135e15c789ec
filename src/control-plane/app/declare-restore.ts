import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { EventBus } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { silentLogger } from '../../base/lib/log.ts';
import { AuditTrail } from '../../services/orgs/audit-trail.ts';
import type { Store } from '../../storage/contract/store.ts';
import { openStore } from '../../storage/drivers/open-store.ts';
import { type LedgerEnd, latestClosedAt, ledgerEnds } from '../ledger/org-ledger.ts';
import { declaredRestore, nextDeclaration, type RestoreDeclaration } from '../ledger/restore-declaration.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';

export interface RestoreAsked {
  /** What is said of it, to everybody. */
  readonly reason: string | undefined;
  readonly clock: Clock;
  /** Asked with the last root of each ledger; nothing is done when it says no. */
  readonly agreed: (ends: readonly LedgerEnd[]) => Promise<boolean>;
}

/**
 * Declares that the data folder of a control plane that is stopped is an older copy (decision 13.23): one commit with
 * its entry in the audit trail. Its ledgers take it up at the next start.
 * @returns undefined when it was not agreed
 * @throws Error where there is no control plane in the folder, where a restore was declared of it already and nothing
 * was signed since, and where the clock is behind what was signed; StoreError `in_use` while one runs on it
 */
export async function declareRestore(
  { dataDir }: Pick<ControlPlaneConfig, 'dataDir'>,
  { reason, clock, agreed }: RestoreAsked,
): Promise<RestoreDeclaration | undefined> {
  const dir = resolve(dataDir);
  const place = join(dir, 'store');
  if (!(await stat(place).catch(() => undefined))?.isDirectory())
    throw new Error(`there is no control plane in ${dir} (CP_DATA_DIR): run this in the folder in which it was started`);
  const { store } = await openStore(place, { fsync: 'always', clock, log: silentLogger });
  try {
    const ends = await ledgerEnds(store);
    refuseTwice(await declaredRestore(store), ends);
    const latest = await latestClosedAt(store);
    if (clock.now() <= latest)
      throw new Error(
        `the clock of this machine says ${timestamp(clock.now())}, and a root was signed at ${timestamp(latest)}: set the clock first, because sequences go on from its time`,
      );
    if (!(await agreed(ends))) return undefined;
    const { declaration, effects, expect } = await nextDeclaration(store, clock.now(), reason);
    await auditOf(store, clock).commitFor({ principal: { kind: 'admin', id: 'admin' }, operation: 'ledger.restore', from: '127.0.0.1' })(
      undefined,
      effects,
      expect,
    );
    return declaration;
  } finally {
    await store.close();
  }
}

/** @throws Error where the same copy was declared before: nothing can have been lost since */
function refuseTwice(declared: RestoreDeclaration | undefined, ends: readonly LedgerEnd[]): void {
  if (declared === undefined) return;
  const isNew = ends.some(({ sequence, cuts }) => cuts.at(-1)?.epoch === declared.epoch && cuts.at(-1)?.sequence !== sequence);
  if (isNew) return;
  const taken = ends.every(({ cuts }) => cuts.at(-1)?.epoch === declared.epoch);
  throw new Error(
    `a restore of this data folder was declared already, at ${declared.at}, and nothing was signed since: ${taken ? 'there is nothing to cut' : 'start the control plane, which takes it up'}`,
  );
}

function auditOf(store: Store, clock: Clock): AuditTrail {
  const nothing = (): void => undefined;
  return new AuditTrail({
    store,
    clock,
    events: new EventBus(silentLogger),
    outbox: { post: () => ({ effects: [], stored: nothing, failed: nothing }) },
  });
}
