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
const NONE: readonly Effect[] = [];

/** Names of models that calls have named which no upstream accepted, as a kind beside those of `ATTRIBUTED`. */
const MODELS = 'm';
/** Names of orgs that refused calls have named and for which nobody has laid down anything: one list for all. */
const ORGS = 'o';
/** In the place of the name of a workload that is not registered. It has a space, so that none can be called so (decision 4.7). */
export const UNREGISTERED = 'unregistered workloads';
/** The same of an org. */
export const UNKNOWN_ORG = 'unknown orgs';

/** Key parts by name. */
type Known = Map<string, string>;

/** What is registered, for whom a refused call counts. */
export interface RegisteredNames {
  /** Whether an org may use a workload of this id. */
  workload(orgId: string, workloadId: string): boolean;
  /** Whether somebody has laid down something for the org. */
  org(orgId: string): boolean;
}

/**
 * The counters that a record adds to, to be committed with it. Which names of projects, customers, accounts and labels have rows of their own is decided once a month, by who comes
 * first: beyond that they are counted together (decision 6.15). So are models that were refused. What a stranger names, who was refused before it was known who he is, makes no row at
 * all: his calls count for one workload that stands for all that are not registered, and under names that others have used already. Records keep what was sent.
 */
export class RecordCounters implements CountedNames {
  /** By month, then by org and kind. */
  readonly #months = new Map<string, Map<string, Known>>();
  readonly #registered: RegisteredNames;
  /** For strangers, who add no name. */
  readonly #knownNames: CountedNames = { part: (org, month, kind, name) => this.#of(month, org, kind)?.get(name) ?? '' };
  #count = 0;

  private constructor(registered: RegisteredNames) {
    this.#registered = registered;
  }

  /** Reads the names that this month, and the one before, have. */
  static async open(store: Store, clock: Clock, registered: RegisteredNames): Promise<RecordCounters> {
    const counters = new RecordCounters(registered);
    const now = timestamp(clock.now()).slice(0, 7);
    const before = new Date(Date.parse(`${now}-01T00:00:00Z`) - 1).toISOString().slice(0, 7);
    for (const month of [before, now]) {
      let after: string | undefined;
      do {
        const page = await store.list(NAMES, { prefix: `${month}|`, limit: PAGE, ...(after === undefined ? {} : { after }) });
        for (const { value } of page) {
          const { org, kind, name } = value as { readonly org: string; readonly kind: string; readonly name: string };
          counters.#keep(counters.#made(month, org, kind), name);
        }
        after = page.length < PAGE ? undefined : page.at(-1)?.key;
      } while (after !== undefined);
    }
    return counters;
  }

  /** To be committed with the record. */
  effects(record: ExecutionRecord): readonly Effect[] {
    const { upstream_status: status, metering } = record;
    const accepted = status !== undefined && status < 400 ? (metering?.model ?? '') : '';
    // Nearly every record: of a call that was let through and answered.
    if (accepted !== '') {
      const attributed = attributionRollUp(record, this);
      return attributed.length === 0 ? rollUp(record, accepted) : [...rollUp(record, accepted), ...attributed];
    }
    if (record.record_tier === 'connection') return NONE;
    const { workload_id: workload, model, completed_at: time } = record;
    const effects: Effect[] = [];
    const month = time.slice(0, 7);
    let [counted, names]: [ExecutionRecord, CountedNames] = [record, this];
    if (!wasLetThrough(record)) {
      const org = this.#orgOf(record, month, effects);
      // A call that has come as far as a connector was of a workload that was registered then.
      const isKnown = record.connector_id !== undefined || this.#registered.workload(org, workload);
      if (org === UNKNOWN_ORG || !isKnown) [counted, names] = [{ ...record, org_id: org, workload_id: UNREGISTERED }, this.#knownNames];
    }
    const isNamed = model !== undefined && model !== '' && names.part(counted.org_id, month, MODELS, model, effects) !== '';
    effects.push(...rollUp(counted, isNamed ? model : ''), ...attributionRollUp(counted, names));
    return effects;
  }

  /** An org that a call was refused for: where any org may call, callers name orgs as they like. */
  #orgOf({ org_id: org, reason_codes: codes }: ExecutionRecord, month: string, added: Effect[]): string {
    if (org === UNKNOWN_ORG || this.#registered.org(org)) return org;
    return codes.includes('org_mismatch') || this.part('', month, ORGS, org, added) === '' ? UNKNOWN_ORG : org;
  }

  part(org: string, month: string, kind: string, name: string, added: Effect[]): string {
    const known = this.#made(month, org, kind);
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

  #of(month: string, org: string, kind: string): Known | undefined {
    return this.#months.get(month)?.get(`${org} ${kind}`);
  }

  #made(month: string, org: string, kind: string): Known {
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

/** Who was let through had shown who he is; what he had under way when the gateway ended has a cost, too. */
function wasLetThrough({ decision, metering }: ExecutionRecord): boolean {
  return decision === 'allow' || decision === 'downgrade' || metering !== undefined;
}
