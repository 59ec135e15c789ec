import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { Shares } from '../../base/lib/shares.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { attributionRollUp, type CountedNames, rollUp } from '../../record/roll-up.ts';
import { keyPart } from '../../storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';

const NAMES = 'attributed_name';
const { countedNames: NAMED, countedOrgs: OTHER_ORGS } = REPORT_BOUNDS;
/** The month that goes on, and the one before, of which a late record may come. */
const MONTHS = 2;
const NONE: readonly Effect[] = [];
const MAX_KEPT = 1_024;
const MAX_KEPT_LENGTH = 512;

/** Names of models that calls have named which no upstream accepted, as a kind beside those of `ATTRIBUTED`. */
const MODELS = 'm';
/**
 * Names of models that an upstream has accepted: some accept whatever they are sent, so that there must be an end of
 * these, too.
 */
const ACCEPTED = 'n';
/** Names of orgs that refused calls have named and for which nobody has laid down anything: one list for all. */
const ORGS = 'o';
/**
 * In the place of the name of a workload that is not registered. It has a space, so that none can be called so
 * (decision 4.7).
 */
export const UNREGISTERED = 'unregistered workloads';
/** The same of an org. */
export const UNKNOWN_ORG = 'unknown orgs';
/** The same of models that an upstream has accepted and that came when no more could have a row of their own. */
export const OTHER_MODELS = 'other models';

/** Names of one kind that an org's month counts one by one. */
interface Known {
  /** Key parts by name. */
  readonly parts: Map<string, string>;
  /** Whose share of all names they take: orgs that callers may have made up have one together. */
  readonly share: string;
}

/** What is registered, for whom a refused call counts. */
export interface RegisteredNames {
  /** Whether an org may use a workload of this id. */
  workload(orgId: string, workloadId: string): boolean;
  /** Whether somebody has laid down something for the org. */
  org(orgId: string): boolean;
  /** Whether the price list spells out this name: there is an end of those. Absent: none is. */
  model?(provider: string, name: string): boolean;
}

/**
 * The counters that a record adds to, to be committed with it. Which names of projects, customers, accounts and labels
 * have rows of their own is decided once a month, by who comes first: beyond that they are counted together (decision
 * 6.15). So are models, those that were refused and those that were accepted. What a stranger names, who was refused
 * before it was known who he is, makes no row at all: his calls count for one workload that stands for all that are not
 * registered, and under names that others have used already. Records keep what was sent.
 */
export class RecordCounters implements CountedNames {
  /** By month, then by org and kind. */
  readonly #months = new Map<string, Map<string, Known>>();
  readonly #registered: RegisteredNames;
  /** For strangers, who add no name. */
  readonly #knownNames: CountedNames = { part: (org, month, kind, name) => this.#of(month, org, kind)?.parts.get(name) ?? '' };
  readonly #shares: Shares;
  /** Models that have a row, by month, org and name, for the calls that come next. Emptied when full. */
  readonly #accepted = new Map<string, string>();

  private constructor(registered: RegisteredNames, all: number) {
    this.#registered = registered;
    this.#shares = new Shares(all);
  }

  /** Reads the names that this month, and the one before, have. @param all names of all orgs together */
  static async open(store: Store, clock: Clock, registered: RegisteredNames, all: number = NAMED.all): Promise<RecordCounters> {
    const counters = new RecordCounters(registered, all);
    const now = timestamp(clock.now()).slice(0, 7);
    const before = new Date(Date.parse(`${now}-01T00:00:00Z`) - 1).toISOString().slice(0, 7);
    for (const month of [before, now]) {
      for await (const { value } of entityRows(store, NAMES, { prefix: `${month}|` })) {
        const { org, kind, name } = value as { readonly org: string; readonly kind: string; readonly name: string };
        counters.#keep(counters.#made(month, org, kind), name);
      }
    }
    return counters;
  }

  /** To be committed with the record. */
  effects(record: ExecutionRecord): readonly Effect[] {
    const { upstream_status: status, metering } = record;
    const accepted = status !== undefined && status < 400 ? (metering?.model ?? '') : '';
    // Nearly every record: of a call that was let through and answered.
    if (accepted !== '') {
      const named: Effect[] = [];
      const { org_id: org, completed_at: time } = record;
      const asked = `${time.slice(0, 7)} ${org}\n${accepted}`;
      const counted = rollUp(record, this.#accepted.get(asked) ?? this.#acceptedModel(record, accepted, asked, named));
      const attributed = attributionRollUp(record, this);
      return attributed.length + named.length === 0 ? counted : [...counted, ...named, ...attributed];
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

  /** The name under which an accepted model counts. */
  #acceptedModel(record: ExecutionRecord, model: string, asked: string, added: Effect[]): string {
    const { org_id: org, completed_at: time, provider, connector_id: connector = '' } = record;
    if (this.part(org, time.slice(0, 7), ACCEPTED, model, added) === '')
      return this.#registered.model?.(provider ?? connector, model) === true ? model : OTHER_MODELS;
    if (this.#accepted.size >= MAX_KEPT) this.#accepted.clear();
    if (added.length === 0 && asked.length <= MAX_KEPT_LENGTH) this.#accepted.set(asked, model);
    return model;
  }

  /** An org that a call was refused for: where any org may call, callers name orgs as they like. */
  #orgOf({ org_id: org, reason_codes: codes }: ExecutionRecord, month: string, added: Effect[]): string {
    if (org === UNKNOWN_ORG || this.#registered.org(org)) return org;
    return codes.includes('org_mismatch') || this.part('', month, ORGS, org, added) === '' ? UNKNOWN_ORG : org;
  }

  part(org: string, month: string, kind: string, name: string, added: Effect[]): string {
    const known = this.#made(month, org, kind);
    const found = known.parts.get(name);
    if (found !== undefined) return found;
    const most = kind === ORGS ? OTHER_ORGS.all : NAMED.org;
    if (known.parts.size >= most || this.#shares.full(known.share) !== undefined) return '';
    const part = this.#keep(known, name);
    const key = `${month}|${keyPart(org)}|${kind}|${keyPart(name)}`;
    added.push({ op: 'put', space: NAMES, key, value: { org, kind, name } });
    return part;
  }

  #keep({ parts, share }: Known, name: string): string {
    const part = keyPart(name);
    parts.set(name, part);
    this.#shares.take(share);
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
      known = { parts: new Map(), share: this.#registered.org(org) ? org : UNKNOWN_ORG };
      kinds.set(of, known);
    }
    return known;
  }

  #forgetOldest(): void {
    const oldest = [...this.#months.keys()].sort()[0] ?? '';
    for (const { parts, share } of this.#months.get(oldest)?.values() ?? [])
      for (let left = parts.size; left > 0; left -= 1) this.#shares.give(share);
    this.#months.delete(oldest);
  }
}

/** Who was let through had shown who he is; what he had under way when the gateway ended has a cost, too. */
function wasLetThrough({ decision, metering }: ExecutionRecord): boolean {
  return decision === 'allow' || decision === 'downgrade' || metering !== undefined;
}
