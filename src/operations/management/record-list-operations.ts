import { z } from 'zod';
import { amountFromNumber } from '../../base/lib/amounts.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { parseIp } from '../../base/lib/ip.ts';
import { CONNECTION_TYPES, TRAFFIC_CLASSES } from '../../base/model/action-request.ts';
import { DOUBT_NAMES } from '../../base/model/cost-doubt.ts';
import { type ExecutionRecord, type PolicyTrace, RECORD_TIERS, STREAM_OUTCOMES } from '../../base/model/execution-record.ts';
import { DECISIONS, permits, type RecordedDecision } from '../../base/model/reason-codes.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import type { RecordFilters } from '../../storage/contract/record-query.ts';
import type { Store, StoredRecord } from '../../storage/contract/store.ts';
import { ALSO_WHEN_WRONG, choice, text } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { providerFilter } from '../provider-filter.ts';
import { findRecord, RECORD } from '../record-operations.ts';
import { DAY_MS, moment, timeOf, timeZone, zoneOf } from '../report-query.ts';
import type { OperationServices } from '../services.ts';
import { badCursor, CURSOR_PARAMETERS, type CursorPage, cursorPage, dataPage } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

/** Records that are read in one go. */
const AT_ONCE = 50;
/** Of one page: UTF-16 units, of which nearly every one of a record is a byte. */
const MAX_BYTES = REPORT_BOUNDS.pageBytes.one;
const RECORDED_DECISIONS = [...DECISIONS, 'error'] as const;
const COST_RULE = 'must be a number of dollars of at least 0, such as 0.25';
/** The time from which on a list is, and the position behind which its page begins. */
const PLACE = /^(\d{1,16}) (\S+)$/;
const ADDRESS_RULE = 'must be one IP address such as 192.0.2.7 or 2001:db8::1';
const TIME_RULE = 'must be a time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22';

/** The filters of the list (specification, "Records filters"), but for `provider`. */
const FILTERS = {
  from: moment,
  to: moment,
  tz: timeZone,
  record_id: text.optional(),
  decision: choice(RECORDED_DECISIONS).optional().meta({ description: '`allow` includes `downgrade`, `deny` every refusal' }),
  traffic_class: choice(TRAFFIC_CLASSES).optional(),
  workload_id: text.optional(),
  caller_id: text.optional(),
  caller_ip: text
    .refine((address) => parseIp(address) !== undefined, ADDRESS_RULE)
    .transform((address) => parseIp(address)?.text ?? address)
    .optional()
    .meta({ type: 'string' }),
  reason_code: text.optional().meta({ description: 'One of its reason_codes' }),
  model: text.optional().meta({ description: 'A part of its name, as it is or in lower case' }),
  action_type: text.optional(),
  record_tier: choice(RECORD_TIERS).optional(),
  connection_type: choice(CONNECTION_TYPES).optional(),
  target_host: text
    .transform((host) => canonicalHost(host) ?? host)
    .optional()
    .meta({ type: 'string' }),
  stream_outcome: choice(STREAM_OUTCOMES).optional(),
  node: text.optional().meta({ description: 'Node id' }),
  credential_id: text.optional(),
  api_key_id: text.optional(),
  project: text.optional().meta({ description: 'Project id' }),
  account: text.optional().meta({ description: 'Account id' }),
  customer: text.optional().meta({ description: 'Customer id' }),
  label_key: text.optional(),
  label_value: text.optional().meta({ description: 'Of the label `label_key`' }),
  min_cost_usd: z
    .string()
    .refine((cost) => amountFromNumber(cost) !== undefined, COST_RULE)
    .optional()
    .meta({ type: 'number', minimum: 0, description: 'US dollars' }),
  cost_doubt: choice(['any', ...DOUBT_NAMES])
    .optional()
    .meta({ description: 'Costs that are not certain: no usage was told, or no rate is known' }),
};

/** Whether items come as they were hashed (decision 7.13). */
const WHOLE = choice(['true', 'false']).optional().meta({
  type: 'boolean',
  description: 'true: as they were hashed; else without policy_trace.attributes',
});

function listQuery(services: OperationServices) {
  const { reports } = services;
  return z
    .strictObject({ ...FILTERS, provider: providerFilter(services), whole: WHOLE, ...CURSOR_PARAMETERS })
    .superRefine((query, { addIssue }) => {
      const add = (name: string, message: string) => addIssue({ code: 'custom', path: [name], message });
      const { from, to } = rangeOf(query, reports.clock.now());
      if (from === undefined) add('from', TIME_RULE);
      if (to === undefined) add('to', TIME_RULE);
      if (from !== undefined && to !== undefined && from >= to) add('from', 'must be before to, which is now when it is not given');
      if (query.label_value !== undefined && query.label_key === undefined) add('label_value', 'needs label_key beside it');
    }, ALSO_WHEN_WRONG);
}

/** What a list shows of a record. */
export const LISTED_RECORD = RECORD.extend({
  record_hash: z.string().meta({ description: 'Hex SHA-256 of the whole record without this member, as canonical JSON' }),
  shortened: z.literal(true).optional().meta({
    description: 'policy_trace.attributes is left out, so that record_hash cannot be recomputed from this; absent: it is the whole record',
  }),
});

type ListedRecord = Omit<ExecutionRecord, 'policy_trace'> & { readonly policy_trace?: PolicyTrace; readonly shortened?: true };
type ListQuery = z.output<ReturnType<typeof listQuery>>;

/**
 * Undefined where the text is no time. Without `to` the list ends now, without `from` it begins 24 hours before its
 * end.
 */
function rangeOf(
  { from, to, tz }: Pick<Partial<ListQuery>, 'from' | 'to' | 'tz'>,
  now: number,
): { from: number | undefined; to: number | undefined } {
  const zone = zoneOf(tz);
  const end = to === undefined ? now + 1 : timeOf(to, 1, zone);
  return { from: from === undefined ? (end ?? now) - DAY_MS : timeOf(from, 0, zone), to: end };
}

/** Records of the org (specification, "Records filters"; decision 10.13). */
export const RECORD_LIST_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.records.list',
    method: 'GET',
    path: '/mgmt/v1/records',
    scope: 'read',
    summary: 'Execution records of the org, the newest first, by default of the last 24 hours; all given filters must be true.',
    annotations: READS,
    tools: [{ name: 'list_records', title: 'List records', defaults: { limit: 20 } }],
    input: { query: { schema: listQuery } },
    output: { status: 200, schema: dataPage(LISTED_RECORD) },
    handle: async ({ principal, query }, { store, reports: { clock } }) => {
      const page = cursorPage('records', query);
      return { json: await pageOf(store, orgOf(principal), query, page, clock.now()) };
    },
  }),
  operation({
    id: 'mgmt.records.read',
    method: 'GET',
    path: '/mgmt/v1/records/{hash}',
    scope: 'read',
    summary: 'One execution record with its whole policy trace, byte for byte as it was hashed.',
    annotations: READS,
    errors: ['not_found'],
    tools: [{ name: 'get_record', title: 'Get record', ids: { hash: 'record_hash' } }],
    input: { params: z.object({ hash: z.string().meta({ description: 'Hex SHA-256 of the record, or its id' }) }) },
    output: { status: 200, schema: RECORD },
    handle: async ({ principal, params }, { store }) => {
      const found = await findRecord(store, params.hash, principal);
      if (found === undefined) throw new GatewayError('not_found', 'There is no such record.');
      return { text: found.text };
    },
  }),
];

/**
 * What stays the same while somebody pages: the time from which the list is goes with the cursor. That to which it is
 * needs no keeping, since every page begins behind what was shown.
 */
async function pageOf(store: Pick<Store, 'records'>, orgId: string, query: ListQuery, page: CursorPage, now: number) {
  const { from, to } = rangeOf(query, now);
  const place = page.after === undefined ? undefined : PLACE.exec(page.after);
  if (place === null) throw badCursor();
  const since = place === undefined ? from : Number(place[1]);
  const filters = {
    ...filtersOf(orgId, query),
    ...(since === undefined ? {} : { since }),
    ...(to === undefined ? {} : { until: to }),
    newestFirst: true,
  };
  const { shown, hasMore } = await readPage(store, filters, place?.[2], page.limit).catch((error: unknown) => {
    throw error instanceof GatewayError && error.code === 'invalid_request' ? badCursor() : error;
  });
  const last = shown.at(-1);
  const next = hasMore && last !== undefined ? `${since ?? 0} ${last.position}` : undefined;
  return page.shown(shown.map(query.whole === 'true' ? (stored) => ({ ...whole(stored) }) : listed), next);
}

/** Reads some records at a time, until the page is full by their number or by their bytes. */
async function readPage(
  store: Pick<Store, 'records'>,
  filters: RecordFilters & { readonly newestFirst: boolean },
  after: string | undefined,
  limit: number,
): Promise<{ readonly shown: readonly StoredRecord[]; readonly hasMore: boolean }> {
  const shown: StoredRecord[] = [];
  let bytes = 0;
  for (let place = after; ; place = shown.at(-1)?.position) {
    const wanted = Math.min(AT_ONCE, limit - shown.length) + 1;
    const found = await store.records({ ...filters, ...(place === undefined ? {} : { after: place }), limit: wanted });
    for (const record of found.slice(0, wanted - 1)) {
      if (shown.length > 0 && bytes + record.text.length > MAX_BYTES) return { shown, hasMore: true };
      bytes += record.text.length;
      shown.push(record);
    }
    if (found.length < wanted) return { shown, hasMore: false };
    if (shown.length >= limit) return { shown, hasMore: true };
  }
}

function filtersOf(orgId: string, query: ListQuery): RecordFilters {
  const { label_key: key, label_value: value, min_cost_usd: cost, decision } = query;
  const minCost = cost === undefined ? undefined : amountFromNumber(cost);
  const filters = {
    record_id: query.record_id?.toLowerCase(),
    decision: decision === undefined ? undefined : decisionsFor(decision),
    traffic_class: query.traffic_class,
    workload_id: query.workload_id,
    caller_id: query.caller_id,
    caller_ip: query.caller_ip,
    reason_code: query.reason_code,
    provider: query.provider,
    model: query.model,
    // Nothing else is an action type (specification, "ActionRequest").
    action_type: query.action_type?.toLowerCase(),
    record_tier: query.record_tier,
    connection_type: query.connection_type,
    target_host: query.target_host,
    stream_outcome: query.stream_outcome,
    node_id: query.node,
    credential_id: query.credential_id,
    api_key_id: query.api_key_id,
    project_id: query.project,
    account_id: query.account,
    customer_id: query.customer,
    label: key === undefined ? undefined : { key, ...(value === undefined ? {} : { value }) },
    min_cost_usd: minCost,
    cost_doubt: query.cost_doubt,
  };
  return { ...Object.fromEntries(Object.entries(filters).filter(([, filter]) => filter !== undefined)), org_id: orgId };
}

/** Decision 8.10. */
function decisionsFor(asked: RecordedDecision): readonly string[] {
  if (asked === 'allow') return DECISIONS.filter(permits);
  return asked === 'deny' ? DECISIONS.filter((decision) => !permits(decision)) : [asked];
}

/**
 * Without the observed values of policy fields, which a list of hundreds has no use for: what lacks them is marked, so
 * that nobody takes it for the record (decision 7.13).
 */
export function listed(stored: StoredRecord): ListedRecord {
  const record = whole(stored);
  if (record.policy_trace?.attributes === undefined) return { ...record };
  const { attributes: _observed, ...trace } = record.policy_trace;
  return { ...record, policy_trace: trace, shortened: true as const };
}

function whole({ text: canonical }: StoredRecord) {
  return JSON.parse(canonical) as ExecutionRecord;
}
