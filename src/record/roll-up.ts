import { picoFromUsd } from '../base/lib/money.ts';
import { costDoubt } from '../base/model/cost-doubt.ts';
import type { ExecutionRecord, RecordedDelegation } from '../base/model/execution-record.ts';
import {
  ATTRIBUTED,
  ATTRIBUTED_DAY,
  ATTRIBUTED_QUARTER,
  delegationSpendKey,
  hourKey,
  hourName,
  keyPart,
  minuteName,
  monthKey,
  quarterKey,
  quarterNames,
  rollUpKey,
  SELDOM_AMOUNTS,
  type SeldomAmount,
  SPEND_DAY,
  SPEND_DELEGATION,
  SPEND_PROVIDER_DAY,
  spendKey,
  USAGE_DAY,
  USAGE_HOUR,
  USAGE_MONTH,
  USAGE_QUARTER,
} from '../storage/contract/counter-spaces.ts';
import type { Effect } from '../storage/contract/store.ts';

const NONE: readonly Effect[] = [];

/**
 * The model of a call that an upstream has accepted; empty for others, whose model is merely what their caller has
 * named.
 */
function acceptedModel({ upstream_status: status, metering }: ExecutionRecord): string {
  return status !== undefined && status < 400 ? (metering?.model ?? '') : '';
}

/**
 * The counters that one record adds to, committed in the same write as the record itself, so that totals and records
 * can never disagree. A record counts in the period in which it was completed. `connection` records count in no total
 * (decision 7.3).
 * @param model under which it counts; empty: under none. Default: the one that an upstream has accepted
 */
export function rollUp(record: ExecutionRecord, model = acceptedModel(record)): readonly Effect[] {
  if (record.record_tier === 'connection') return [];
  const { completed_at: time, org_id: org } = record;
  const amounts = amountsOf(record);
  const usage = usageOf(record, amounts, model);
  if (!('cost_pico' in amounts) || amounts.cost_pico === 0n) return usage;
  const { project_id: project, provider, connector_id: connector } = record;
  const spent = (space: string, of: string): Effect => {
    const hour = HOURS[Number(time.slice(11, 13))] ?? hourName(0);
    return {
      op: 'add',
      space,
      key: spendKey({ day: time.slice(0, 10), org, of }),
      amounts: { cost_pico: amounts.cost_pico, [hour]: amounts.cost_pico },
    };
  };
  return [
    ...usage,
    // What calls without a project cost is the rest of the org's; what a provider's own connector costs is in the usage
    // of the day.
    ...(project === undefined ? [] : [spent(SPEND_DAY, project)]),
    ...(provider === undefined || provider === connector ? [] : [spent(SPEND_PROVIDER_DAY, provider)]),
    ...(record.delegation_chain === undefined ? NONE : delegated(org, record.delegation_chain, amounts.cost_pico)),
  ];
}

type Metered = Readonly<Record<'requests' | 'tokens_in' | 'tokens_out' | 'cost_pico', bigint>>;

/** What few records add to a total: tokens read from a cache, and what of the cost is in doubt (decision 6.17). */
type Seldom = Readonly<Partial<Record<SeldomAmount, bigint>>>;

/** What a record adds to a total. */
export type Amounts = { readonly requests: bigint } | (Metered & Seldom);

export function amountsOf(record: ExecutionRecord): Amounts {
  const { record_tier: tier, summed_requests: summed, metering } = record;
  // The call that it tells the cost of has been counted.
  const requests = tier === 'usage' ? 0n : summed === undefined ? 1n : BigInt(summed);
  if (!metering) return { requests };
  const pico = picoFromUsd(metering.cost_usd);
  const amounts = {
    requests,
    tokens_in: BigInt(metering.tokens_in),
    tokens_out: BigInt(metering.tokens_out),
    cost_pico: pico,
  };
  const { withoutUsage, byDefault } = costDoubt(record);
  const cached = metering.cached_tokens_in;
  if (!withoutUsage && !byDefault && !cached) return amounts;
  return {
    ...amounts,
    ...(cached ? { cached_in: BigInt(cached) } : {}),
    ...(withoutUsage ? { no_usage: 1n, ...(pico === 0n ? {} : { no_usage_pico: pico }) } : {}),
    ...(byDefault ? { by_default: 1n, by_default_pico: pico } : {}),
  };
}

const HOURS = Array.from({ length: 24 }, (_, hour) => hourName(hour));
const QUARTERS = [0, 1, 2, 3].map(quarterNames);

/** The same amounts under the names of the quarter of an hour in which the record was completed. */
export function inQuarter({ completed_at: time }: ExecutionRecord, amounts: Amounts): Readonly<Record<string, bigint>> {
  const names = QUARTERS[Math.floor(Number(time.slice(14, 16)) / 15)] ?? quarterNames(0);
  const counted: Record<string, bigint> = {};
  counted[names.requests] = amounts.requests;
  if (!('cost_pico' in amounts)) return counted;
  counted[names.tokens_in] = amounts.tokens_in;
  counted[names.tokens_out] = amounts.tokens_out;
  counted[names.cost_pico] = amounts.cost_pico;
  for (const name of SELDOM_AMOUNTS) {
    const amount = amounts[name];
    if (amount !== undefined) counted[names[name]] = amount;
  }
  return counted;
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
  readonly quarter: string;
}

interface FiveMinutes {
  /** Under which their requests are counted. */
  readonly name: string;
  /**
   * Amounts with that name, all of them nothing: to fill a copy costs a third of adding a computed name to an object.
   */
  readonly nothing: Record<string, bigint> & Metered;
}

const MINUTES = Array.from({ length: 12 }, (_, at): FiveMinutes => {
  const name = minuteName(at * 5);
  return { name, nothing: { requests: 0n, tokens_in: 0n, tokens_out: 0n, cost_pico: 0n, [name]: 0n } };
});

/** The same amounts, and the requests also under the name of the five minutes in which the record was completed. */
function inMinutes({ completed_at: time }: ExecutionRecord, amounts: Amounts): Readonly<Record<string, bigint>> {
  const { name, nothing } = MINUTES[Math.floor(Number(time.slice(14, 16)) / 5)] as FiveMinutes;
  if (!('cost_pico' in amounts) || SELDOM_AMOUNTS.some((seldom) => seldom in amounts)) return { ...amounts, [name]: amounts.requests };
  const counted: Record<string, bigint> = { ...nothing };
  counted['requests'] = amounts.requests;
  counted['tokens_in'] = amounts.tokens_in;
  counted['tokens_out'] = amounts.tokens_out;
  counted['cost_pico'] = amounts.cost_pico;
  counted[name] = amounts.requests;
  return counted;
}

/**
 * Keys of the hour's calls: there are few, and making four of them costs more than all that is added under them.
 * Emptied when full.
 */
const keysMadeBefore = new Map<string, UsageKeys>();
const MAX_KEYS = 1_024;
/** Models are the only part that may be long. */
const MAX_KEPT_LENGTH = 512;

/**
 * By day in full; by hour and by month for what people ask, so that no answer reads more than a few rows; by quarter of
 * an hour for days that begin at another time than in UTC.
 */
function usageOf(record: ExecutionRecord, amounts: Amounts, model: string): readonly Effect[] {
  const { day, hour, month, quarter } = usageKeys(record, model);
  return [
    // One behind the other, so that what they share is looked at once.
    { op: 'add', space: USAGE_DAY, key: day, amounts },
    { op: 'add', space: USAGE_MONTH, key: month, amounts },
    { op: 'add', space: USAGE_HOUR, key: hour, amounts: inMinutes(record, amounts) },
    { op: 'add', space: USAGE_QUARTER, key: quarter, amounts: inQuarter(record, amounts) },
  ];
}

function usageKeys(record: ExecutionRecord, model: string): UsageKeys {
  const { completed_at: time, org_id: org, workload_id: workload, connector_id: connector = '', decision } = record;
  const hour = time.slice(0, 13);
  // Ids hold no line end, and what may hold one stands last.
  const asked = `${hour}\n${decision}\n${org}\n${workload}\n${connector}\n${model}`;
  const before = keysMadeBefore.get(asked);
  if (before !== undefined) return before;
  const keys = {
    day: rollUpKey({ day: time.slice(0, 10), org, workload, connector, model, decision }),
    hour: hourKey({ org, hour, decision }),
    month: monthKey({ month: time.slice(0, 7), org, workload, connector, decision }),
    quarter: quarterKey({ org, hour, workload, connector, model, decision }),
  };
  if (keysMadeBefore.size >= MAX_KEYS) keysMadeBefore.clear();
  if (asked.length <= MAX_KEPT_LENGTH) keysMadeBefore.set(asked, keys);
  return keys;
}

/** Which names are counted one by one: callers choose them as they like, so that there must be an end. */
export interface CountedNames {
  /**
   * The name as a part of a key; empty when it has no row of its own.
   * @param kind of which only so many are counted
   * @param added takes what is to be stored with the record when the name is new
   */
  part(org: string, month: string, kind: string, name: string, added: Effect[]): string;
}

/**
 * The counters of who is charged (decision 6.15): those of its project, customer, account, caller and labels, by day
 * and by quarter of an hour, committed in the same write as the record. A record that is attributed to nobody has none.
 */
export function attributionRollUp(record: ExecutionRecord, names: CountedNames): readonly Effect[] {
  const { record_tier: tier, project_id: project, customer_id: customer, account_id: account, caller_id: caller, labels } = record;
  if (tier === 'connection') return NONE;
  if ((project ?? customer ?? account ?? caller ?? labels) === undefined) return NONE;
  const effects: Effect[] = [];
  const rows = new Rows(record, effects);
  const { org, month } = rows;
  const add = (kind: string, name: string | undefined): void => {
    if (name !== undefined && name !== '') rows.add(kind, names.part(org, month, kind, name, effects));
  };
  add(ATTRIBUTED.project, project);
  add(ATTRIBUTED.customer, customer);
  add(ATTRIBUTED.account, account);
  add(ATTRIBUTED.caller, caller);
  for (const [key, value] of Object.entries(labels ?? {})) {
    if (key === '' || value === '') continue;
    const known = names.part(org, month, LABEL_KEYS, key, effects);
    const own = known === '' ? '' : names.part(org, month, ATTRIBUTED.label, `${key}\n${value}`, effects);
    rows.add(ATTRIBUTED.label, `${known}|${own === '' ? '' : keyPart(value)}`);
  }
  return effects;
}

/**
 * Keys of labels are counted apart from what they are worth, so that many values of one key do not keep out another
 * key.
 */
const LABEL_KEYS = 'k';

class Rows {
  readonly org: string;
  readonly month: string;
  readonly #effects: Effect[];
  readonly #day: string;
  readonly #hour: string;
  readonly #amounts: Amounts;
  readonly #quarter: Readonly<Record<string, bigint>>;

  constructor(record: ExecutionRecord, effects: Effect[]) {
    const { completed_at: time, org_id: org } = record;
    this.org = org;
    this.month = time.slice(0, 7);
    this.#effects = effects;
    this.#day = `${keyPart(org)}|${time.slice(0, 10)}|`;
    this.#hour = `${keyPart(org)}|${time.slice(0, 13)}|`;
    this.#amounts = amountsOf(record);
    this.#quarter = inQuarter(record, this.#amounts);
  }

  add(kind: string, of: string): void {
    const name = `${kind}|${of}`;
    this.#effects.push(
      { op: 'add', space: ATTRIBUTED_DAY, key: this.#day + name, amounts: this.#amounts },
      { op: 'add', space: ATTRIBUTED_QUARTER, key: this.#hour + name, amounts: this.#quarter },
    );
  }
}
