import { systemClock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { checkRecord } from '../../src/record/verify-record.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { counterRows } from '../../src/storage/contract/store-pages.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';

const PAGE = 1_000;
/** How the tags of WebSockets begin. */
export const SOCKET_TAG = 'ws-';
/** How callers of CONNECTs are named that have a record of their own. */
export const TUNNEL_TAG = 'tunnel-';
/** The workload for which refused calls of those count that are not registered (decision 6.15). */
const STRANGERS = 'unregistered workloads';
/** Of these rows the model: strangers count under one that others have named before, which a record does not tell. */
const MODEL_OF_STRANGERS = new RegExp(`(\\|${encodeURIComponent(STRANGERS)}\\|[^|]*\\|)[^|]*(\\|[^|]*)$`);
const WITH_MODELS: ReadonlySet<string> = new Set(['usage_day', 'usage_quarter']);
/** Counter spaces that every action adds to. */
const SPACES = ['usage_day', 'usage_hour', 'usage_month', 'usage_quarter'];

/** The members of a record that an audit looks at; the rest is covered by its hash. */
interface ReadRecord {
  readonly record_id: string;
  readonly record_hash: string;
  readonly record_tier: string;
  readonly caller_id?: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly connector_id?: string;
  readonly completed_at: string;
  readonly decision: string;
  readonly reason_codes: readonly string[];
  readonly model?: string;
  readonly upstream_status?: number;
  readonly stream_outcome?: string;
  readonly response_sha256?: string;
  readonly usage_record_id?: string;
  readonly metering?: ReadMetering;
}

interface ReadMetering {
  readonly model?: string;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cached_tokens_in?: number;
  readonly cost_usd: string;
  readonly usage_reported: boolean;
  readonly rate_source: string;
  readonly rate_in?: string;
  readonly rate_out?: string;
  readonly billing?: string;
}

export interface SeenRecord {
  readonly hash: string;
  readonly tag: string;
  readonly responseHash: string | undefined;
  readonly streamOutcome: string | undefined;
}

export interface Audit {
  readonly records: ReadonlyMap<string, SeenRecord>;
  /** Roll-up counters that were compared. */
  readonly counters: number;
  readonly badHashes: readonly string[];
  /** Record ids or calls that occur more than once, and places out of order. */
  readonly doubles: readonly string[];
  readonly wrongCounters: readonly string[];
}

/** Opens a store folder that no gateway has, walks every record and recounts every total. */
export async function auditStore(dir: string): Promise<Audit> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: systemClock, log: silentLogger });
  try {
    return await audit(store);
  } finally {
    await store.close();
  }
}

/** Walks every record of an open store that nobody writes to, and recounts every total. */
export async function audit(store: Store): Promise<Audit> {
  const records = new Map<string, SeenRecord>();
  const byTag = new Map<string, string>();
  const recount = new Map<string, Record<string, bigint>>();
  const badHashes: string[] = [];
  const doubles: string[] = [];
  let after = '';
  for (;;) {
    const page = await store.records({ limit: PAGE, ...(after === '' ? {} : { after }) });
    for (const { text, position } of page) {
      if (position <= after) doubles.push(`${position} comes after ${after}`);
      after = position;
      const record = JSON.parse(text) as ReadRecord;
      const problem = hashProblem(text);
      if (problem !== undefined) badHashes.push(`${record.record_id}: ${problem}`);
      const tag = record.caller_id ?? '';
      if (records.has(record.record_id)) doubles.push(`record ${record.record_id} is stored twice`);
      // Each call on a WebSocket has a record.
      if (byTag.has(tag) && !tag.startsWith(SOCKET_TAG))
        doubles.push(`call ${tag} has the records ${byTag.get(tag)} and ${record.record_id}`);
      byTag.set(tag, record.record_id);
      const { record_hash: hash, response_sha256: responseHash, stream_outcome: streamOutcome } = record;
      records.set(record.record_id, { hash, tag, responseHash, streamOutcome });
      count(record, recount);
    }
    if (page.length < PAGE) break;
  }
  const stored = new Map<string, Record<string, bigint>>();
  for (const space of SPACES) {
    for await (const row of counterRows(store, space)) {
      const key = `${space} ${WITH_MODELS.has(space) ? row.key.replace(MODEL_OF_STRANGERS, '$1$2') : row.key}`;
      const totals = stored.get(key) ?? {};
      stored.set(key, totals);
      for (const [name, amount] of Object.entries(row.amounts)) totals[name] = (totals[name] ?? 0n) + amount;
    }
  }
  return { records, counters: stored.size, badHashes, doubles, wrongCounters: compare(stored, recount) };
}

/** Adds one record to the recount: written here a second time, so that a slip in the product's own roll-up shows. */
function count(record: ReadRecord, recount: Map<string, Record<string, bigint>>): void {
  if (record.record_tier !== 'action') return;
  const { upstream_status: status, metering } = record;
  const accepted = status !== undefined && status < 400 ? metering?.model : undefined;
  const amounts = amountsOf(record);
  const { completed_at: time, org_id: org, connector_id: connector = '', decision } = record;
  const isStranger = record.reason_codes.includes('workload_not_registered');
  const workload = isStranger ? STRANGERS : record.workload_id;
  const model = isStranger ? '' : (accepted ?? record.model ?? '');
  addTo(recount, 'usage_day', [time.slice(0, 10), org, workload, connector, model, decision], amounts);
  addTo(recount, 'usage_month', [time.slice(0, 7), org, workload, connector, decision], amounts);
  const [hour, minute] = [time.slice(0, 13), Number(time.slice(14, 16))];
  addTo(recount, 'usage_hour', [org, hour, decision], amounts);
  const five = String(Math.floor(minute / 5) * 5).padStart(2, '0');
  addTo(recount, 'usage_hour', [org, hour, decision], { requests: 1n }, `_m${five}`);
  addTo(recount, 'usage_quarter', [org, hour, workload, connector, model, decision], amounts, `_${Math.floor(minute / 15)}`);
}

/** What it adds to a total, by name; what is 0 of tokens from a cache and of doubts (decision 6.17) is not there. */
function amountsOf({ metering, upstream_status: status, usage_record_id: later }: ReadRecord): Readonly<Record<string, bigint>> {
  if (metering === undefined) return { requests: 1n };
  const { tokens_in, tokens_out, cached_tokens_in: cached = 0, cost_usd: cost, usage_reported: isReported, billing } = metering;
  const [whole = '0', fraction = ''] = cost.split('.');
  const pico = BigInt(whole) * 1_000_000_000_000n + BigInt(fraction.padEnd(12, '0'));
  const isFree = pico === 0n && metering.rate_in === '0' && metering.rate_out === '0';
  const isCertain = isReported || isFree || billing === 'plan' || later !== undefined || (status ?? 0) >= 400;
  const isByDefault = metering.rate_source === 'default' && pico !== 0n;
  const seldom = {
    cached_in: BigInt(cached),
    no_usage: isCertain ? 0n : 1n,
    no_usage_pico: isCertain ? 0n : pico,
    by_default: isByDefault ? 1n : 0n,
    by_default_pico: isByDefault ? pico : 0n,
  };
  const there = Object.entries(seldom).filter(([, amount]) => amount !== 0n);
  return { requests: 1n, tokens_in: BigInt(tokens_in), tokens_out: BigInt(tokens_out), cost_pico: pico, ...Object.fromEntries(there) };
}

function addTo(
  recount: Map<string, Record<string, bigint>>,
  space: string,
  parts: readonly string[],
  amounts: Readonly<Record<string, bigint>>,
  part = '',
): void {
  const key = `${space} ${parts.map((part) => encodeURIComponent(part)).join('|')}`;
  const totals = recount.get(key) ?? {};
  recount.set(key, totals);
  for (const [name, amount] of Object.entries(amounts)) totals[name + part] = (totals[name + part] ?? 0n) + amount;
}

function compare(stored: ReadonlyMap<string, Record<string, bigint>>, recount: ReadonlyMap<string, Record<string, bigint>>): string[] {
  const text = (totals: Readonly<Record<string, bigint>>) =>
    Object.entries(totals)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, total]) => `${name}=${total}`)
      .join(' ');
  const kept = new Map(Array.from(stored, ([key, amounts]) => [key, text(amounts)]));
  const wrong: string[] = [];
  for (const key of new Set([...kept.keys(), ...recount.keys()])) {
    const recounted = text(recount.get(key) ?? {});
    if (kept.get(key) !== recounted) wrong.push(`${key}: stored ${kept.get(key) ?? 'nothing'}, recounted ${recounted || 'nothing'}`);
  }
  return wrong;
}

function hashProblem(text: string): string | undefined {
  try {
    const { stored, computed } = checkRecord(Buffer.from(text));
    return stored === computed ? undefined : 'the record was changed after it was hashed';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
