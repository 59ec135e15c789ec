import { spendAccount, spendRange } from '../../../src/storage/contract/cap-accounts.ts';
import { USAGE_QUARTER } from '../../../src/storage/contract/counter-spaces.ts';
import type { Effect } from '../../../src/storage/contract/store.ts';
import type { CarriedJournal } from '../../../src/storage/postgres/journal-carrier.ts';
import type { Sql, SqlPools, SqlRow } from '../../../src/storage/postgres/sql.ts';

const SCOPE = { org: 'o', kind: 'org', id: '' } as const;
/** The org's spend ... */
export const ACCOUNT = spendAccount(SCOPE);
/** ... in a month. */
export const MONTH = spendRange(SCOPE, { first: '2026-11-01T00', behind: '2026-12-01T00' });

/** ... in the hour that all calls here are made in ... */
export const HOUR = spendRange(SCOPE, { first: '2026-11-18T05', behind: '2026-11-18T06' });
/** ... and in another one. */
export const LATER = spendRange(SCOPE, { first: '2026-11-18T06', behind: '2026-11-18T07' });

/** What a call that cost so much adds to the counters. */
export function spent(pico: bigint): readonly Effect[] {
  return [
    {
      op: 'add',
      space: USAGE_QUARTER,
      key: 'o|2026-11-18T05|w|openai|m|allow',
      amounts: { requests_0: 1n, cost_pico_0: pico },
    },
  ];
}

/** A journal in memory, which outlives its node. */
export class MemoryJournal implements CarriedJournal {
  readonly #commits: { readonly record: undefined; readonly effects: readonly Effect[] }[] = [];

  append(effects: readonly Effect[]): void {
    this.#commits.push({ record: undefined, effects });
  }

  journal(from: string | undefined, limits: { readonly commits: number }) {
    const at = Number(from ?? 0);
    const commits = this.#commits.slice(at, at + limits.commits);
    const next = at + commits.length;
    return Promise.resolve({ commits, next: String(next).padStart(8, '0'), isLast: next === this.#commits.length });
  }
}

/** Runs statements beside a store. */
export async function beside(database: { openPools(): Promise<SqlPools> }, work: (sql: Sql) => Promise<readonly SqlRow[]>) {
  const { writes } = await database.openPools();
  const connection = await writes.connect();
  try {
    return await work(connection);
  } finally {
    connection.release(false);
  }
}
