import type { Events } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { networkOf } from '../../base/lib/ip.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Shares } from '../../base/lib/shares.ts';
import { ownText } from '../../base/lib/text.ts';
import { EXECUTION_RECORD_SCHEMA, type ExecutionRecord } from '../../base/model/execution-record.ts';
import type { ReasonCode } from '../../base/model/reason-codes.ts';
import { STRANGER_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { canonicalRecord, type RecordDraft } from '../../record/canonical-record.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { LaidDown } from '../registers/sharers.ts';
import { type RecordCounters, UNKNOWN_ORG, UNREGISTERED } from '../reports/record-counters.ts';
import { LongRecordBudget } from './long-record-budget.ts';
import { type RecordRate, StrangerBudget } from './stranger-budget.ts';

/** A sum is written so long after its first call. */
const SUM_MS = 60_000;
const SUMMED_UP = 'records_summed_up' satisfies ReasonCode;
/** Codes of the calls that a sum names. */
const MAX_CODES = 10;
/** Orgs that are counted one by one where addresses are not. */
const MAX_ORGS_IN_ALL = 64;

export interface StrangerRecordsOptions {
  readonly store: Pick<Store, 'commit' | 'writable'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  readonly counters: Pick<RecordCounters, 'effects'>;
  readonly nodeId: string;
  readonly rate: RecordRate;
  /** Names that nobody has laid down are counted together. */
  readonly known: LaidDown;
}

/** Whose calls a sum is of, by names that are laid down. */
interface Named {
  readonly org: string;
  readonly workload: string;
}

/** Refused calls of one address that have no record of their own, of one org, workload, decision and tier. */
interface Sum {
  readonly key: string;
  /** Undefined: of addresses that are not counted one by one. */
  readonly address: string | undefined;
  readonly orgId: string;
  readonly like: Pick<
    ExecutionRecord,
    'action_method' | 'action_type' | 'connection_type' | 'decision' | 'record_tier' | 'status_code' | 'traffic_class' | 'workload_id'
  >;
  readonly codes: Set<string>;
  /** Epoch milliseconds. */
  readonly since: number;
  requests: number;
  requestBytes: number;
}

/**
 * Records of refused calls whose callers have shown nothing: no token, no key, no registered workload (decision 7.11).
 * Each address, and all of them together, have a budget; what is above it is counted, and one record per address and
 * minute says how many calls there were. It counts for them in every total. Sums under way are written when the gateway
 * stops; one that is killed loses those of the last minute.
 */
export class StrangerRecords {
  readonly #options: StrangerRecordsOptions;
  readonly #budget: StrangerBudget;
  readonly #long: LongRecordBudget;
  #sums = new Map<string, Sum>();
  #shares = new Shares(STRANGER_BOUNDS.sums.all);
  #orgsInAll = new Set<string>();
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: StrangerRecordsOptions) {
    this.#options = options;
    this.#budget = new StrangerBudget(options.clock, options.rate);
    this.#long = new LongRecordBudget(options.clock);
  }

  /** Whether a record of so many bytes may be written for a caller of this address; it is taken from his budget. */
  mayRecord(callerIp: string, bytes: number): boolean {
    return this.#budget.take(callerIp, bytes);
  }

  /**
   * Whether a long record of so many bytes may be written for a caller of this org who is known; it is taken from the
   * org's budget.
   */
  mayBeLong(orgId: string, bytes: number): boolean {
    return this.#long.take(orgId, bytes);
  }

  /** Counts a refused call that has no record of its own. @param record as it would have been */
  sum(record: ExecutionRecord, durationMs: number): void {
    this.#add(record);
    this.#writeLater();
    if (this.#options.events.hears('summed')) this.#options.events.emit('summed', { record, durationMs });
  }

  /** Writes what was summed up so far. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#write();
    await this.#writing;
  }

  #writeLater(): void {
    this.#cancelTimer ??= this.#options.clock.after(SUM_MS, () => {
      this.#cancelTimer = undefined;
      this.#write();
    });
  }

  #add(record: ExecutionRecord): void {
    const { known } = this.#options;
    const org = known.org(record.org_id) ? record.org_id : UNKNOWN_ORG;
    const workload = org !== UNKNOWN_ORG && known.workload(org, record.workload_id) ? record.workload_id : UNREGISTERED;
    const address = networkOf(record.caller_ip ?? '');
    const of = `${record.decision} ${record.record_tier} ${workload} `;
    let sum = this.#sums.get(`${address} ${of}${org}`);
    if (sum === undefined && this.#shares.full(address) === undefined) {
      this.#shares.take(address);
      sum = this.#begin(record, { org, workload }, `${address} ${of}${org}`, ownText(address));
    }
    sum ??= this.#inAll(record, { org, workload }, of);
    sum.requests += 1;
    sum.requestBytes += record.request_bytes;
    for (const code of record.reason_codes) if (sum.codes.size < MAX_CODES) sum.codes.add(code);
  }

  /** One of the sums of addresses that have none of their own. */
  #inAll(record: ExecutionRecord, { org: named, workload }: Named, of: string): Sum {
    const org = this.#orgsInAll.has(named) || this.#orgsInAll.size < MAX_ORGS_IN_ALL ? named : UNKNOWN_ORG;
    this.#orgsInAll.add(org);
    return this.#sums.get(` ${of}${org}`) ?? this.#begin(record, { org, workload }, ` ${of}${org}`, undefined);
  }

  #begin(record: ExecutionRecord, { org, workload }: Named, key: string, address: string | undefined): Sum {
    const sum: Sum = {
      key: ownText(key),
      address,
      orgId: ownText(org),
      like: {
        action_method: ownText(record.action_method),
        action_type: record.action_type,
        connection_type: record.connection_type,
        decision: record.decision,
        record_tier: record.record_tier,
        ...(record.status_code === undefined ? {} : { status_code: record.status_code }),
        traffic_class: record.traffic_class,
        workload_id: ownText(workload),
      },
      codes: new Set(),
      since: this.#options.clock.now(),
      requests: 0,
      requestBytes: 0,
    };
    this.#sums.set(sum.key, sum);
    return sum;
  }

  #write(): void {
    const sums = this.#sums;
    if (sums.size === 0) return;
    this.#sums = new Map();
    this.#shares = new Shares(STRANGER_BOUNDS.sums.all);
    this.#orgsInAll = new Set();
    this.#writing = this.#writing.then(() => this.#storeAll(sums.values()));
  }

  /** What cannot be written is tried again with what comes next. */
  async #storeAll(sums: Iterable<Sum>): Promise<void> {
    let failure: unknown;
    for (const sum of sums) {
      try {
        if (failure === undefined) await this.#store(sum);
        else this.#keep(sum);
      } catch (error) {
        failure = error;
        this.#keep(sum);
      }
    }
    if (failure !== undefined)
      this.#options.log.warn({ err: failure }, 'the sums of refused calls could not be written; they are tried again within a minute');
  }

  #keep(sum: Sum): void {
    const current = this.#sums.get(sum.key);
    if (current === undefined) {
      this.#sums.set(sum.key, sum);
      if (sum.address !== undefined) this.#shares.take(sum.address);
    } else {
      current.requests += sum.requests;
      current.requestBytes += sum.requestBytes;
    }
    if (!this.#closed) this.#writeLater();
  }

  async #store(sum: Sum): Promise<void> {
    const { store, clock, counters, events } = this.#options;
    const now = clock.now();
    const draft = this.#draft(sum, now);
    const { text, hash } = canonicalRecord(draft);
    draft.record_hash = hash;
    const record = draft as ExecutionRecord;
    await store.commit(
      { record_id: record.record_id, record_hash: hash, text, committed_at: now, members: record },
      counters.effects(record),
    );
    events.emit('execution', { record, durationMs: 0 });
  }

  #draft({ address, orgId, like, codes, since, requests, requestBytes }: Sum, now: number): RecordDraft {
    const id = uuidv7(now);
    const from = address === undefined ? 'many addresses' : address.includes(':') ? `the network ${address}/64` : `the address ${address}`;
    return {
      ...NOTHING,
      ...like,
      schema: EXECUTION_RECORD_SCHEMA,
      record_id: id,
      request_id: id,
      created_at: timestamp(since),
      completed_at: timestamp(now),
      org_id: orgId,
      caller_ip: address === '' ? undefined : address,
      node_id: this.#options.nodeId,
      reason: `${requests} refused calls from ${from}: callers who have shown nothing have no record each above GW_STRANGER_RECORDS.`,
      reason_codes: [SUMMED_UP, ...codes],
      request_bytes: requestBytes,
      summed_requests: requests,
    };
  }
}

/** What such a record does not say. */
const NOTHING = {
  record_hash: '',
  trace_id: undefined,
  caller_id: undefined,
  target: '',
  target_host: '',
  target_path: '',
  connector_id: undefined,
  connector_version: undefined,
  credential_id: undefined,
  api_key_id: undefined,
  provider: undefined,
  model: undefined,
  usage_record_id: undefined,
  settles_record_id: undefined,
  idempotency_key: undefined,
  customer_id: undefined,
  account_id: undefined,
  project_id: undefined,
  labels: undefined,
  policy_trace: undefined,
  metering: undefined,
  status_code: undefined,
  upstream_status: undefined,
  latency_ms: 0,
  upstream_latency_ms: undefined,
  stream: false,
  stream_outcome: undefined,
  request_sha256: undefined,
  response_sha256: undefined,
  response_bytes: 0,
  oauth_passthrough: undefined,
  risk_score: undefined,
  risk_signals: undefined,
  delegation_chain: undefined,
  delegation_id: undefined,
  approval_id: undefined,
  budget: undefined,
  error: undefined,
} as const;
