import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';

const PAGE = 1_000;

/** One record as far as the control plane is concerned. */
export interface HashedRecord {
  readonly id: string;
  readonly hash: string;
  readonly decision: string;
  readonly reasonCodes: readonly string[];
  readonly createdAt: number;
  readonly completedAt: number;
  /** Number of the bundle that decided it; undefined: none did. */
  readonly bundle: number | undefined;
}

interface ReadRecord {
  readonly record_id: string;
  readonly record_hash: string;
  readonly decision: string;
  readonly reason_codes: readonly string[];
  readonly created_at: string;
  readonly completed_at: string;
  readonly policy_trace?: { readonly version?: string };
}

/**
 * Every record below a data folder, also of a gateway that runs, in order of commit.
 * @param root where the copy is made
 */
export async function hashesBelow(root: string, dataDir: string): Promise<readonly HashedRecord[]> {
  const copy = join(root, 'copy-of-hashes');
  cpSync(join(dataDir, 'store'), copy, { recursive: true });
  try {
    return await hashesIn(copy);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

async function hashesIn(dir: string): Promise<readonly HashedRecord[]> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: systemClock, log: silentLogger });
  try {
    const found: HashedRecord[] = [];
    for (let after = '', more = true; more; ) {
      const page = await store.records({ limit: PAGE, ...(after === '' ? {} : { after }) });
      for (const { text, position } of page) {
        after = position;
        found.push(hashedRecord(JSON.parse(text) as ReadRecord));
      }
      more = page.length === PAGE;
    }
    return found;
  } finally {
    await store.close();
  }
}

function hashedRecord(record: ReadRecord): HashedRecord {
  const version = record.policy_trace?.version;
  return {
    id: record.record_id,
    hash: record.record_hash,
    decision: record.decision,
    reasonCodes: record.reason_codes,
    createdAt: Date.parse(record.created_at),
    completedAt: Date.parse(record.completed_at),
    bundle: version === undefined ? undefined : Number(version),
  };
}

/** Calls that a bundle decided which is older than one that had decided another call before they came. */
export function bundlesThatWentBack(records: readonly HashedRecord[]): string[] {
  const decided = records.filter((record): record is HashedRecord & { bundle: number } => record.bundle !== undefined);
  const ended = [...decided].sort((one, other) => one.completedAt - other.completedAt);
  const back: string[] = [];
  let newest = 0;
  let at = 0;
  for (const { id, bundle, createdAt } of [...decided].sort((one, other) => one.createdAt - other.createdAt)) {
    for (let next = ended[at]; next !== undefined && next.completedAt < createdAt; next = ended[++at])
      newest = Math.max(newest, next.bundle);
    if (bundle < newest) back.push(`record ${id}: bundle ${bundle}, and ${newest} was active before`);
  }
  return back;
}
