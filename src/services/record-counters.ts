import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { attributionRollUp, type CountedNames } from '../record/attribution-roll-up.ts';
import { rollUp } from '../record/roll-up.ts';
import { keyPart } from '../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const NAMES = 'attributed_name';
/** Names of one kind that an org's month counts one by one. */
const PER_KIND = 1_000;
/** In all orgs together: where any org may call, callers name orgs as they like, too. */
const IN_ALL = 100_000;
/** The month that goes on, and the one before, of which a late record may come. */
const MONTHS = 2;
const PAGE = 1_000;

/** Key parts by name. */
type Known = Map<string, string>;

/**
 * The counters that a record adds to, to be committed with it. Which names of projects, customers, accounts and labels have rows of their own is decided once a month, by who comes
 * first: beyond that they are counted together (decision 6.15).
 */
export class RecordCounters implements CountedNames {
  /** By month, then by org and kind. */
  readonly #months = new Map<string, Map<string, Known>>();
  #count = 0;

  /** Reads the names that this month, and the one before, have. */
  static async open(store: Store, clock: Clock): Promise<RecordCounters> {
    const counters = new RecordCounters();
    const now = timestamp(clock.now()).slice(0, 7);
    const before = new Date(Date.parse(`${now}-01T00:00:00Z`) - 1).toISOString().slice(0, 7);
    for (const month of [before, now]) {
      let after: string | undefined;
      do {
        const page = await store.list(NAMES, { prefix: `${month}|`, limit: PAGE, ...(after === undefined ? {} : { after }) });
        for (const { value } of page) {
          const { org, kind, name } = value as { readonly org: string; readonly kind: string; readonly name: string };
          counters.#keep(counters.#of(month, org, kind), name);
        }
        after = page.length < PAGE ? undefined : page.at(-1)?.key;
      } while (after !== undefined);
    }
    return counters;
  }

  /** To be committed with the record. */
  effects(record: ExecutionRecord): readonly Effect[] {
    const attributed = attributionRollUp(record, this);
    return attributed.length === 0 ? rollUp(record) : [...rollUp(record), ...attributed];
  }

  part(org: string, month: string, kind: string, name: string, added: Effect[]): string {
    const known = this.#of(month, org, kind);
    const found = known.get(name);
    if (found !== undefined) return found;
    if (known.size >= PER_KIND || this.#count >= IN_ALL) return '';
    const part = this.#keep(known, name);
    const key = `${month}|${keyPart(org)}|${kind}|${keyPart(name)}`;
    added.push({ op: 'put', space: NAMES, key, value: { org, kind, name } });
    return part;
  }

  #keep(known: Known, name: string): string {
    const part = keyPart(name);
    known.set(name, part);
    this.#count += 1;
    return part;
  }

  #of(month: string, org: string, kind: string): Known {
    let kinds = this.#months.get(month);
    if (kinds === undefined) {
      kinds = new Map();
      this.#months.set(month, kinds);
      if (this.#months.size > MONTHS) this.#forgetOldest();
    }
    const of = `${org} ${kind}`;
    let known = kinds.get(of);
    if (known === undefined) {
      known = new Map();
      kinds.set(of, known);
    }
    return known;
  }

  #forgetOldest(): void {
    const oldest = [...this.#months.keys()].sort()[0] ?? '';
    for (const known of this.#months.get(oldest)?.values() ?? []) this.#count -= known.size;
    this.#months.delete(oldest);
  }
}
