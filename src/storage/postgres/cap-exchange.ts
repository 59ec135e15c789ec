import type { CapAnswer, CapExchanged, CapMessage, CountedRange } from '../contract/cap-accounts.ts';
import { HOLD_CHANGE } from './apply-batch.ts';
import { storedKey } from './long-keys.ts';
import { BEGIN, onConnection, type Sql, type SqlPool, type SqlRow, textArray } from './sql.ts';

/*
 * What a node says of the caps that nodes share, and is granted, inside of a transaction that somebody else has begun
 * and ends. It holds the row of changes, so that no other transaction that writes is under way: what is read here is
 * true until the end.
 */

/** Timeline of a server that names none: it has no standby of which this could tell it. */
const ONLY_TIMELINE = '1';
const TIMELINE = `('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int`;
/** No such function, no leave to call it, not supported here: classes of what does not change by itself. */
const NEVER = /^(42883|42501|0A000)$/;

/**
 * How statements of this server ask for its timeline: a number that grows when a standby takes over.
 * @throws what the database or the way to it refuses with
 */
export async function timelineOf(pool: SqlPool): Promise<string> {
  try {
    await onConnection(pool, (sql) => sql.query(`SELECT (${TIMELINE})::text AS timeline`));
    return TIMELINE;
  } catch (error) {
    if (error instanceof Error && 'code' in error && NEVER.test(String(error.code))) return ONLY_TIMELINE;
    throw error;
  }
}

/**
 * Says what a node holds, grants what it wants of what is left, and answers. What is settled is read as it is behind
 * all that this transaction has written before.
 * @param timeline how the server is asked for its own
 */
export async function exchangeCaps(sql: Sql, node: string, { asks, isWhole, isLast }: CapMessage, timeline: string): Promise<CapExchanged> {
  if (isWhole) await sql.query(`UPDATE gw_nodes SET told = ${timeline} WHERE node = $1::text`, [node]);
  const counts = asks.flatMap(({ id, counts: all }) =>
    all.map(({ range, cap }, at) => ({ id, at: `${at}`, cap: cap?.toString() ?? null, ...storedRange(range) })),
  );
  const rows = await sql.query(STATEMENT.replaceAll('TIMELINE', timeline), [
    node,
    `${isWhole}`,
    textArray(asks.map(({ id }) => id)),
    textArray(asks.map(({ held }) => `${held}`)),
    textArray(asks.map(({ wanted }) => `${wanted}`)),
    textArray(counts.map(({ id }) => id)),
    textArray(counts.map(({ at }) => at)),
    textArray(counts.map(({ space }) => space)),
    textArray(counts.map(({ name }) => name)),
    textArray(counts.map(({ first }) => first)),
    textArray(counts.map(({ behind }) => behind)),
    textArray(counts.map(({ cap }) => cap)),
  ]);
  if (isLast) await sql.query(LEAVE, [node]);
  const [state] = rows;
  const answers = new Map(rows.flatMap((row) => (row['account'] == null ? [] : [[row['account'], answerOf(row)] as const])));
  return { answers, isOpen: state?.['is_open'] === 'true', isTold: state?.['is_told'] === 'true', members: Number(state?.['members']) };
}

/** Of one key that is too long for an index, the one that stands for it. */
function storedRange(range: CountedRange): CountedRange {
  const { key, long } = storedKey(range.first);
  return long === undefined ? range : { ...range, first: key, behind: `${key}\x01` };
}

function answerOf({ granted, others, settled }: SqlRow): CapAnswer {
  return {
    granted: BigInt(granted ?? '0'),
    others: BigInt(others ?? '0'),
    settled: settled ? settled.split(' ').map(BigInt) : [],
  };
}

/** No member any more, unless it holds something. */
const LEAVE = `
UPDATE gw_nodes SET told = NULL WHERE node = $1::text AND NOT EXISTS (SELECT FROM gw_leases AS l WHERE l.node = gw_nodes.node)`;

/** `said` may be empty: the state is answered all the same. */
const STATEMENT = `
WITH state AS (
  SELECT coalesce(bool_and(told = TIMELINE), false) AS is_open, coalesce(bool_or(node = $1::text AND told = TIMELINE), false) AS is_told,
         count(*) AS members
  FROM gw_nodes WHERE told IS NOT NULL
), said AS (
  SELECT * FROM unnest($3::text::text[], $4::text::numeric[], $5::text::numeric[]) AS given (account, held, wanted)
), counted AS (
  SELECT account, at, cap, coalesce((
    SELECT sum(amount) FROM gw_counters AS c
    WHERE c.space = given.space AND c.key >= given.first AND c.key < given.behind AND c.name = given.name), 0) + coalesce((
    SELECT sum(amount) FROM gw_charges AS h
    WHERE h.account = given.account
      AND (given.space <> 'spend_hour' OR h.hour >= right(given.first, 13) AND h.hour < right(given.behind, 13))), 0) AS settled
  FROM unnest($6::text::text[], $7::text::int[], $8::text::text[], $9::text::text[], $10::text::text[], $11::text::text[],
              $12::text::numeric[]) AS given (account, at, space, name, first, behind, cap)
), known AS (
  SELECT said.*, sums.settled, sums.rest,
    coalesce((SELECT sum(amount) FROM gw_leases AS l WHERE l.account = said.account AND l.node <> $1::text), 0) AS others
  FROM said LEFT JOIN (
    SELECT account, string_agg(settled::text, ' ' ORDER BY at) AS settled, min(cap - settled) AS rest FROM counted GROUP BY account
  ) AS sums USING (account)
), granted AS (
  SELECT known.*, CASE WHEN is_open AND is_told AND rest IS NOT NULL THEN greatest(least(wanted, rest - others - held), 0) ELSE 0 END AS granted
  FROM known, state
), gone AS (
  DELETE FROM gw_leases WHERE node = $1::text
    AND (account IN (SELECT account FROM granted WHERE held + granted <= 0)
         OR ($2::text::boolean AND account NOT IN (SELECT account FROM granted)))
), kept AS (
  INSERT INTO gw_leases (account, node, amount) SELECT account, $1::text, held + granted FROM granted WHERE held + granted > 0
  ON CONFLICT (account, node) DO UPDATE SET amount = excluded.amount
)
SELECT account, granted::text, settled, others::text, is_open::text, is_told::text, members::text
FROM state LEFT JOIN granted ON true`;

/** What a transaction that moves a node on begins with, when it may change nothing that has a number. */
export const BEGIN_HOLDING: string = `${BEGIN}${HOLD_CHANGE}`;
