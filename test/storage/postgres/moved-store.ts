import { dirname } from 'node:path';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SPEND_DAY, SPEND_HOUR, USAGE_QUARTER } from '../../../src/storage/contract/counter-spaces.ts';
import { spendByHour } from '../../../src/storage/contract/spend-hours.ts';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { counterRows } from '../../../src/storage/contract/store-pages.ts';
import { type MoveOptions, type MoveOutcome, moveStore } from '../../../src/storage/drivers/store-move.ts';
import type { EmbeddedStore } from '../../../src/storage/embedded/embedded-store.ts';
import { add, EPOCH, makeRecord, put, type Tap } from '../../contract/store-under-test.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { StoreRig } from '../embedded/store-rig.ts';
import { FaultyPools } from './faulty-pools.ts';
import { NAME, type TestDatabase } from './pg-rig.ts';

/* A store that was in use for some months, and how it is moved. */

const SHARED = ['api_key', 'budget_limit', 'org_status'];
const OWN = ['intent', 'outbox'];
const COUNTED = ['budget', 'usage_day', 'usage_month', USAGE_QUARTER, SPEND_DAY];
const MONTH_MS = 31 * 24 * 3_600_000;

/** Records of three months, the oldest of which are removed; counters that had them too; entities of all kinds. */
export async function usedStore(t: Tap, commits = 60): Promise<{ readonly local: EmbeddedStore; readonly dataDir: string }> {
  const rig = new StoreRig(t, { segmentBytes: 4 * 1024 });
  const local = await rig.open();
  for (let n = 1; n <= commits; n += 1) await local.commit(recordOf(n, commits), effectsOf(n));
  await local.removeRecordsBefore(EPOCH + Math.floor(commits / 10));
  return { local, dataDir: dirname(rig.dir) };
}

function recordOf(n: number, commits: number): ReturnType<typeof makeRecord> | undefined {
  if (n % 5 === 0) return undefined;
  return makeRecord(n, { pad: 100, committed_at: EPOCH + n + Math.floor((3 * n) / commits) * MONTH_MS });
}

/** What the n-th commit does beside its record. */
export function effectsOf(n: number): readonly Effect[] {
  const shared = SHARED[n % 3] ?? '';
  return [
    add(`k${n % 4}`, { n: 1n, usd: BigInt(n) ** 14n, 'less|a': -BigInt(n) }, COUNTED[n % 3]),
    n % 7 === 6 ? { op: 'delete', space: shared, key: `a${n - 3}` } : put(`a${n}`, { n, text: 'ü\u0000\ud800"', list: [n, null] }, shared),
    add(`org|2026-11-2${n % 3}T05|w${n % 2}|openai`, { cost_pico_0: BigInt(n), cost_pico_2: 7n, calls_0: 1n }, USAGE_QUARTER),
    add(`2026-11-2${n % 3}|org|p${n % 4}`, { cost_pico: BigInt(n), cost_pico_h05: 3n }, SPEND_DAY),
    put(`own${n % 2}`, { n }, OWN[n % 2]),
    // An amount of nothing makes no counter.
    add(`none${n}`, {}, 'budget'),
  ];
}

/** All that two stores have both when one was moved into the other. */
export async function movedContent(store: Store): Promise<unknown> {
  const entities: unknown[] = [];
  for (const space of SHARED) entities.push(...(await store.entities(space)));
  const counters: unknown[] = [];
  for (const space of COUNTED)
    for await (const row of counterRows(store, space)) if (Object.keys(row.amounts).length > 0) counters.push({ space, ...row });
  const records = (await store.records({ limit: 10_000 })).map(({ text }) => text);
  return { records, entities, counters };
}

/** The spend by hour that a database has, and what it makes of the counters of a store. */
export async function spendOf(database: Store, local: Store): Promise<readonly [there: unknown, wanted: unknown]> {
  const wanted = new Map<string, bigint>();
  for (const space of [USAGE_QUARTER, SPEND_DAY])
    for await (const { key, amounts } of counterRows(local, space))
      for (const one of spendByHour(space, key, Object.entries(amounts))) wanted.set(one.key, (wanted.get(one.key) ?? 0n) + one.pico);
  const there: [string, bigint][] = [];
  for await (const { key, amounts } of counterRows(database, SPEND_HOUR)) there.push([key, amounts['cost_pico'] ?? 0n]);
  return [there.filter(([, pico]) => pico !== 0n), [...wanted].filter(([, pico]) => pico !== 0n).sort(([a], [b]) => (a < b ? -1 : 1))];
}

/** One process that moves: its pools can be made to fail, and what it tells is kept. */
export class Mover {
  readonly pools: FaultyPools;
  readonly told: string[] = [];
  readonly #dataDir: string;

  private constructor(pools: FaultyPools, dataDir: string) {
    this.pools = pools;
    this.#dataDir = dataDir;
  }

  static async open(database: TestDatabase, dataDir: string): Promise<Mover> {
    return new Mover(new FaultyPools(await database.openPools()), dataDir);
  }

  move(local: EmbeddedStore, more: Partial<MoveOptions> = {}): Promise<MoveOutcome> {
    return moveStore(local, {
      url: 'postgres://test',
      clock: fakeClock(EPOCH),
      log: silentLogger,
      node: 'one',
      dataDir: this.#dataDir,
      limits: { rows: 11, units: 100_000 },
      onBegin: (kind) => void this.told.push(kind),
      onProgress: ({ stage, done, total }) => void this.told.push(`${stage} ${done}/${total}`),
      openPools: () => Promise.resolve(Object.assign(this.pools, { name: NAME })),
      ...more,
    });
  }

  /** Moves until the process dies by the n-th statement: before it is sent, or when it was. */
  async moveUntil(local: EmbeddedStore, n: number, isSent: boolean): Promise<'died' | MoveOutcome> {
    let died = (): void => undefined;
    const dead = new Promise<'died'>((resolve) => {
      died = () => resolve('died');
    });
    let left = n;
    this.pools.around = async (_text, send) => {
      left -= 1;
      if (left > 0) return send();
      if (isSent) await send();
      this.pools.die();
      died();
      return [];
    };
    return Promise.race([this.move(local), dead]);
  }
}
