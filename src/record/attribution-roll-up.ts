import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { ATTRIBUTED, ATTRIBUTED_DAY, ATTRIBUTED_QUARTER, keyPart } from '../storage/contract/counter-spaces.ts';
import type { Effect } from '../storage/contract/store.ts';
import { type Amounts, amountsOf, inQuarter } from './roll-up.ts';

const NONE: readonly Effect[] = [];

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
