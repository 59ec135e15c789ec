import { onConnection, type SqlPool, type SqlRow } from './sql.ts';

/** What a database holds, counted by looking at every row. */
export interface CountedRows {
  readonly records: number;
  /** By space. */
  readonly entities: ReadonlyMap<string, number>;
  /** By space: how many named totals there are, and what they are together. */
  readonly counters: ReadonlyMap<string, CountedTotals>;
}

export interface CountedTotals {
  readonly totals: number;
  readonly sum: bigint;
}

/** Rows of one statement: it is over long before a server, or the client, gives it up. */
const AT_ONCE = 50_000;

/** Counts everything. What is written meanwhile may be in it or not. */
export async function countRows(pool: SqlPool): Promise<CountedRows> {
  const entities = new Map<string, number>();
  for await (const { space, rows } of pages(pool, ENTITIES)) entities.set(space ?? '', (entities.get(space ?? '') ?? 0) + Number(rows));
  const counters = new Map<string, CountedTotals>();
  for await (const { space, rows, sum } of pages(pool, COUNTERS)) {
    const before = counters.get(space ?? '') ?? { totals: 0, sum: 0n };
    counters.set(space ?? '', { totals: before.totals + Number(rows), sum: before.sum + BigInt(sum ?? '0') });
  }
  return { records: await countRecords(pool), entities, counters };
}

/** How many records there are. */
export async function countRecords(pool: SqlPool): Promise<number> {
  let records = 0;
  for await (const { rows } of pages(pool, RECORDS)) records += Number(rows);
  return records;
}

/** A statement that counts the rows of a page, in groups of which the last one names the last row. */
interface PageCount {
  readonly text: string;
  /** What stands before all rows. */
  readonly first: readonly string[];
}

const RECORDS: PageCount = {
  text: `WITH page AS (SELECT place FROM gw_records WHERE place > $1::text::bigint ORDER BY place LIMIT ${AT_ONCE})
         SELECT count(*)::text AS rows, json_build_array(max(place)::text)::text AS last FROM page HAVING count(*) > 0`,
  first: ['-1'],
};

const ENTITIES: PageCount = {
  text: `WITH page AS (SELECT space, key FROM gw_entities WHERE (space, key) > ($1::text, $2::text) ORDER BY space, key LIMIT ${AT_ONCE})
         SELECT space, count(*)::text AS rows, json_build_array(space, max(key))::text AS last FROM page GROUP BY space ORDER BY space`,
  first: ['', ''],
};

const COUNTERS: PageCount = {
  text: `WITH page AS (SELECT space, key, name, amount FROM gw_counters WHERE (space, key, name) > ($1::text, $2::text, $3::text)
                       ORDER BY space, key, name LIMIT ${AT_ONCE})
         SELECT space, count(*)::text AS rows, sum(amount)::text AS sum,
                (array_agg(json_build_array(space, key, name)::text ORDER BY key DESC, name DESC))[1] AS last
         FROM page GROUP BY space ORDER BY space`,
  first: ['', '', ''],
};

async function* pages(pool: SqlPool, { text, first }: PageCount): AsyncGenerator<SqlRow> {
  let after = first;
  for (;;) {
    const from = after;
    const rows = await onConnection(pool, (sql) => sql.query(text, from));
    yield* rows;
    const last = rows.at(-1)?.['last'];
    if (last == null) return;
    after = JSON.parse(last) as readonly string[];
  }
}
