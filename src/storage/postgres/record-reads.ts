import type { RecordQuery } from '../contract/record-query.ts';
import { checkQuery } from '../contract/record-query.ts';
import type { StoredRecord } from '../contract/store.ts';
import type { RecordPlaces } from './record-places.ts';
import { filterConditions } from './record-row.ts';
import type { Sql } from './sql.ts';

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;
const RECORD_HASH = /^[0-9a-f]{64}$/;

/** A query as a statement. */
export interface RecordStatement {
  readonly text: string;
  readonly values: readonly string[];
}

/**
 * The statement of a query; undefined when no record can be in its page.
 * @throws TypeError for what the contract does not allow; GatewayError `invalid_request` for an unknown position
 */
export function recordStatement(query: RecordQuery, places: RecordPlaces): RecordStatement | undefined {
  checkQuery(query);
  const { after, limit, newestFirst = false, record_id: id } = query;
  const where = filterConditions(query);
  if (after !== undefined) where.add(places.placeAt(after), (value) => `place ${newestFirst ? '<' : '>'} ${value}::bigint`);
  if (id !== undefined) {
    if (!RECORD_ID.test(id)) return undefined;
    where.add(id, (value) => `record_id = ${value}`);
  }
  const text = `SELECT text, place::text FROM gw_records ${where.text} ORDER BY gw_records.place ${newestFirst ? 'DESC' : 'ASC'} LIMIT ${limit}`;
  return { text, values: where.values };
}

/** Runs {@link recordStatement}. */
export async function recordPageOf(sql: Sql, { text, values }: RecordStatement, places: RecordPlaces): Promise<readonly StoredRecord[]> {
  const rows = await sql.query(text, values);
  return rows.map((row) => ({ text: row['text'] ?? '', position: places.positionOf(row['place'] ?? '0') }));
}

/** The statement that finds one record; undefined when nothing can have this id. */
export function statementById(recordId: string): RecordStatement | undefined {
  if (!RECORD_ID.test(recordId)) return undefined;
  return { text: 'SELECT text, place::text FROM gw_records WHERE record_id = $1::text', values: [recordId] };
}

/** The same by hash. */
export function statementByHash(recordHash: string): RecordStatement | undefined {
  if (!RECORD_HASH.test(recordHash)) return undefined;
  return {
    text: 'SELECT text, place::text FROM gw_records WHERE record_hash = $1::text::bytea ORDER BY gw_records.place LIMIT 1',
    values: [`\\x${recordHash}`],
  };
}
