import { picoFromUsd } from '../base/lib/money.ts';
import type { ExecutionRecord, RecordedDelegation } from '../base/model/execution-record.ts';
import {
  delegationSpendKey,
  hourKey,
  monthKey,
  rollUpKey,
  SPEND_DAY,
  SPEND_DELEGATION,
  SPEND_PROVIDER_DAY,
  spendKey,
  USAGE_DAY,
  USAGE_HOUR,
  USAGE_MONTH,
} from '../storage/contract/counter-spaces.ts';
import type { Effect } from '../storage/contract/store.ts';

const NONE: readonly Effect[] = [];

/**
 * The counters that one record adds to, committed in the same write as the record itself, so that totals and records can never disagree. A record counts in
 * the period in which it was completed. `connection` records count in no total (decision 7.3).
 */
export function rollUp(record: ExecutionRecord): readonly Effect[] {
  if (record.record_tier === 'connection') return [];
  const { completed_at: time, org_id: org, metering } = record;
  if (!metering) return usageOf(record, { requests: 1n });
  const amounts = {
    // The call that it tells the cost of has been counted.
    requests: record.record_tier === 'usage' ? 0n : 1n,
    tokens_in: BigInt(metering.tokens_in),
    tokens_out: BigInt(metering.tokens_out),
    cost_pico: picoFromUsd(metering.cost_usd),
  };
  const usage = usageOf(record, amounts);
  if (amounts.cost_pico === 0n) return usage;
  const { project_id: project, provider, connector_id: connector } = record;
  const spent = (space: string, of: string): Effect => {
    return { op: 'add', space, key: spendKey({ day: time.slice(0, 10), org, of }), amounts: { cost_pico: amounts.cost_pico } };
  };
  return [
    ...usage,
    // What calls without a project cost is the rest of the org's; what a provider's own connector costs is in the usage of the day.
    ...(project === undefined ? [] : [spent(SPEND_DAY, project)]),
    ...(provider === undefined || provider === connector ? [] : [spent(SPEND_PROVIDER_DAY, provider)]),
    ...(record.delegation_chain === undefined ? NONE : delegated(org, record.delegation_chain, amounts.cost_pico)),
  ];
}

/** What is spent under a delegation counts for each link that has a budget. */
function delegated(org: string, chain: readonly RecordedDelegation[], pico: bigint): readonly Effect[] {
  const limited = chain.filter(({ usd_max: max }) => max !== undefined);
  return limited.map(({ delegation_id: id }) => ({
    op: 'add',
    space: SPEND_DELEGATION,
    key: delegationSpendKey(org, id),
    amounts: { cost_pico: pico },
  }));
}

interface UsageKeys {
  readonly day: string;
  readonly hour: string;
  readonly month: string;
}

/** Keys of the hour's calls: there are few, and making three of them costs more than all that is added under them. Emptied when full. */
const keysMadeBefore = new Map<string, UsageKeys>();
const MAX_KEYS = 1_024;
/** Models are the only part that may be long. */
const MAX_KEPT_LENGTH = 512;

/**
 * By day in full; by hour and by month for what people ask, so that no answer reads more than a few rows. The model is kept only for calls that an upstream
 * accepted: what callers merely name is theirs to invent, and would let anyone grow the number of counters.
 */
function usageOf(record: ExecutionRecord, amounts: Readonly<Record<string, bigint>>): readonly Effect[] {
  const { day, hour, month } = usageKeys(record);
  return [
    { op: 'add', space: USAGE_DAY, key: day, amounts },
    { op: 'add', space: USAGE_HOUR, key: hour, amounts },
    { op: 'add', space: USAGE_MONTH, key: month, amounts },
  ];
}

function usageKeys(record: ExecutionRecord): UsageKeys {
  const { completed_at: time, org_id: org, workload_id: workload, connector_id: connector = '', decision } = record;
  const accepted = record.upstream_status !== undefined && record.upstream_status < 400;
  const model = accepted ? (record.metering?.model ?? '') : '';
  const hour = time.slice(0, 13);
  // Ids hold no line end, and what may hold one stands last.
  const asked = `${hour}\n${decision}\n${org}\n${workload}\n${connector}\n${model}`;
  const before = keysMadeBefore.get(asked);
  if (before !== undefined) return before;
  const keys = {
    day: rollUpKey({ day: time.slice(0, 10), org, workload, connector, model, decision }),
    hour: hourKey({ org, hour, decision }),
    month: monthKey({ month: time.slice(0, 7), org, workload, connector, decision }),
  };
  if (keysMadeBefore.size >= MAX_KEYS) keysMadeBefore.clear();
  if (asked.length <= MAX_KEPT_LENGTH) keysMadeBefore.set(asked, keys);
  return keys;
}
