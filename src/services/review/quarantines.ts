import type { Events } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { newestFirst, uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Shares } from '../../base/lib/shares.ts';
import { deciderText } from '../../base/model/approval.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { namedPrincipal, type Principal, principalWord } from '../../base/model/principal.ts';
import type { QuarantineEntry } from '../../base/model/quarantine-entry.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { type EntitiesPage, entityPage, type PageQuery, pageOf, removeEntities } from '../registers/entity-page.ts';
import { GroupIndex } from '../registers/group-index.ts';
import { type Along, REMOVED, Register } from '../registers/register.ts';
import { type LaidDown, type Sharer, sharerOf } from '../registers/sharers.ts';
import { entityWith } from '../registers/watched-space.ts';
import type { Outbox, Posted } from '../sending/outbox.ts';

/** All of them, under the keys of `newestFirst`. */
const SPACE = 'quarantine';
/** Those that hold somebody, by their ids: what a start reads. */
const ACTIVE = 'quarantine_active';
const SEPARATOR = '\u0000';
const EVERYBODY = '';

/** Who calls. */
export interface QuarantineCaller {
  readonly orgId: string;
  readonly workloadId: string;
  readonly callerId: string | undefined;
  readonly callerIp: string;
}

export interface QuarantineFilter {
  readonly orgId?: string | undefined;
  readonly workloadId?: string | undefined;
  readonly active?: boolean | undefined;
}

export interface QuarantineOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  readonly outbox: Pick<Outbox, 'post'>;
  readonly log: Logger;
  /** Which names are no caller's own. */
  readonly known: LaidDown;
  /** Entries that hold somebody, of all orgs. */
  readonly maxHeld?: number;
}

export interface Releasing {
  readonly principal: Principal;
  /** For whom the principal says to release. */
  readonly note?: string | undefined;
}

/** What is told to whom it holds. */
export type Held = Pick<QuarantineEntry, 'reason' | 'reason_codes'>;

/** An entry that is made with the record of a call: each of its verbs as of a settlement. */
export interface MadeEntry {
  /** Nobody is held by an entry that is not stored. */
  readonly needsRecord: true;
  effects(record: ExecutionRecord): readonly Effect[];
  stored(): void;
  failed(): void;
  abandoned(): void;
}

interface Active extends Held {
  readonly id: string;
  readonly key: string;
  /** Whose share of the places it takes; absent in what a version before shares has stored. */
  readonly share?: Sharer;
}

/**
 * Who is in quarantine (specification, "Quarantine entry"; decision 9.2). Whom an entry holds is held from the moment
 * in which policy has said so, before the entry is stored with the record of that call. What is active is in memory,
 * also what other writers of the store make and release.
 */
export class QuarantineService {
  readonly #options: QuarantineOptions;
  readonly #stored: Register<Active>;
  /** By whom they hold, stored or not. Several may hold one caller: each writer makes its own. */
  readonly #byKey = new Map<string, Active[]>();
  readonly #byId = new Map<string, Active>();
  /** Entries that hold one caller each, by their workload. */
  readonly #ofWorkload = new Map<string, number>();
  readonly #byOrg: GroupIndex;
  readonly #shares: Shares;
  /** Orgs of which it is said that they have no place left. */
  readonly #full = new Set<string>();

  private constructor(options: QuarantineOptions, byOrg: GroupIndex, stored: Register<Active>) {
    this.#options = options;
    this.#byOrg = byOrg;
    this.#stored = stored;
    this.#shares = new Shares(options.maxHeld ?? CONTROL_BOUNDS.quarantined.all);
    for (const active of stored.values()) this.#add(active);
  }

  static async open(options: QuarantineOptions): Promise<QuarantineService> {
    const byOrg = new GroupIndex(options.store, SPACE, 'org');
    await byOrg.complete((value) => (value as QuarantineEntry).org_id);
    let service: QuarantineService | undefined;
    const changed = (id: string, active: Active | undefined): void => {
      if (service === undefined) return;
      if (active === undefined) service.#remove(id);
      else service.#add(active);
    };
    const stored = await Register.open(options.store, ACTIVE, { read: entityWith<Active>('id', 'key'), orgOf: orgOfActive, changed });
    service = new QuarantineService(options, byOrg, stored);
    return service;
  }

  /** Entries that hold somebody. */
  get active(): number {
    return this.#byId.size;
  }

  /** What somebody is told who is held; undefined when nobody holds him. */
  holding({ orgId, workloadId, callerId, callerIp }: QuarantineCaller): Held | undefined {
    if (this.#byKey.size === 0) return undefined;
    const of = (caller: string) => this.#byKey.get(keyOf(orgId, workloadId, caller))?.[0];
    return of(callerText(callerId, callerIp)) ?? of(EVERYBODY);
  }

  /**
   * Holds whom policy has put aside. Where his share of the places is taken, his workload is held as a whole if
   * somebody has registered it.
   * @returns undefined when he is held already, or nobody can be held: then policy judges each of his calls
   */
  hold(caller: QuarantineCaller, told: Held): MadeEntry | undefined {
    if (this.holding(caller)) return undefined;
    const { orgId, workloadId, callerId, callerIp } = caller;
    const { known, clock } = this.#options;
    const share = sharerOf(caller, known);
    const isAtShare = this.#shares.full(share.org, share.caller) !== undefined;
    // A name that nobody has laid down is not worth a place: whoever has it takes another one.
    if (isAtShare && !(known.org(orgId) && known.workload(orgId, workloadId))) {
      this.#unheld(share.org);
      return undefined;
    }
    const isFull =
      isAtShare || (this.#ofWorkload.get(keyOf(orgId, workloadId, EVERYBODY)) ?? 0) >= CONTROL_BOUNDS.quarantinedOfWorkload.one;
    const whom = isFull ? EVERYBODY : callerText(callerId, callerIp);
    const active: Active = { ...told, id: uuidv7(clock.now()), key: keyOf(orgId, workloadId, whom), share };
    this.#add(active);
    return new Making(active, isFull, this.#options, this.#byOrg, (isStored) => this.#settled(active.id, isStored));
  }

  /** A page of all entries, the newest first. */
  page({ orgId, workloadId, active }: QuarantineFilter, query: PageQuery): Promise<EntitiesPage<QuarantineEntry>> {
    const take = (value: unknown): QuarantineEntry | undefined => {
      const entry = value as QuarantineEntry;
      const fits =
        (orgId === undefined || entry.org_id === orgId) &&
        (workloadId === undefined || entry.workload_id === workloadId) &&
        (active === undefined || (entry.released_at === null) === active);
      return fits ? entry : undefined;
    };
    if (active === true) {
      const ids = orgId === undefined ? [...this.#stored.keys()] : this.#stored.keysOfOrg(orgId);
      return pageOf(this.#byOrg.reader(ids.map(newestFirst).sort()), query, take);
    }
    return orgId === undefined ? entityPage(this.#options.store, SPACE, query, take) : this.#byOrg.page(orgId, query, take);
  }

  /**
   * From the next request on policy alone decides about whom it held.
   * @returns undefined when there is no such entry
   * @throws GatewayError `conflict` when it was released before
   */
  async release(id: string, { principal, note }: Releasing, commit?: Commit): Promise<QuarantineEntry | undefined> {
    const { store, clock, outbox, events } = this.#options;
    const by = namedPrincipal(principal);
    const at = { space: SPACE, key: newestFirst(id) };
    const done: { released?: QuarantineEntry } = {};
    const next = async (_active: unknown, { first, settling, expect }: Along): Promise<typeof REMOVED | undefined> => {
      const found = await store.entity(at.space, at.key);
      const entry = found?.value as QuarantineEntry | undefined;
      if (found === undefined || entry === undefined || (principal.orgId !== undefined && entry.org_id !== principal.orgId))
        return undefined;
      if (entry.released_at !== null)
        throw new GatewayError(
          'conflict',
          `This entry was released by ${deciderText(entry.released_by, entry.released_by_note, entry.released_by_principal)} at ${entry.released_at}.`,
        );
      done.released = {
        ...entry,
        released_at: timestamp(clock.now()),
        released_by: principalWord(by, note),
        released_by_principal: by,
        ...(note === undefined ? {} : { released_by_note: note }),
      };
      first.push({ op: 'put', ...at, value: done.released });
      expect.push({ ...at, version: found.version });
      settling.push(outbox.post('quarantine', done.released));
      return REMOVED;
    };
    await this.#stored.change(id, next, { commit });
    if (done.released === undefined) return undefined;
    this.#remove(id);
    events.emit('quarantine', done.released);
    return done.released;
  }

  /** Removes entries that were released before `epochMs`. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    const before = timestamp(epochMs);
    const isGone = (value: unknown): boolean => ((value as QuarantineEntry).released_at ?? before) < before;
    return removeEntities(this.#options.store, SPACE, epochMs, isGone, (value) => {
      const { org_id: orgId, quarantine_id: id } = value as QuarantineEntry;
      return [this.#byOrg.delete(orgId, id)];
    });
  }

  /** Says of an org, once until a place of its is free again, that it has no place left. */
  #unheld(org: string): void {
    if (this.#full.has(org)) return;
    this.#full.add(org);
    this.#options.log.warn(
      { org_id: org },
      'an org holds as many callers in quarantine as it may; release some, or register its workloads',
    );
  }

  /** An entry whose record was made, or will not be. */
  #settled(id: string, isStored: boolean): void {
    if (!isStored) this.#remove(id);
    else if (!this.#stored.has(id)) {
      // What was told while the store was away is not heard of: another may have released it by now.
      const remove = (): void => void (this.#stored.has(id) || this.#remove(id));
      void this.#stored.refresh(id).then(remove, () => undefined);
    }
  }

  #add(active: Active): void {
    if (this.#byId.has(active.id)) return;
    this.#byId.set(active.id, active);
    const beside = this.#byKey.get(active.key);
    if (beside) beside.push(active);
    else this.#byKey.set(active.key, [active]);
    const { org, caller } = shareOf(active);
    this.#shares.take(org, caller);
    this.#count(active, 1);
    this.#options.events.emit('callerHeld', active.id);
  }

  #remove(id: string): void {
    const active = this.#byId.get(id);
    if (!active) return;
    this.#byId.delete(id);
    const left = (this.#byKey.get(active.key) ?? []).filter((other) => other.id !== id);
    if (left.length === 0) this.#byKey.delete(active.key);
    else this.#byKey.set(active.key, left);
    const { org, caller } = shareOf(active);
    this.#shares.give(org, caller);
    this.#full.delete(org);
    this.#count(active, -1);
  }

  #count({ key }: Active, by: 1 | -1): void {
    // Neither an org nor a workload has the separator in its name.
    const workload = key.slice(0, key.indexOf(SEPARATOR, key.indexOf(SEPARATOR) + 1) + 1);
    if (key === workload) return;
    const count = (this.#ofWorkload.get(workload) ?? 0) + by;
    if (count === 0) this.#ofWorkload.delete(workload);
    else this.#ofWorkload.set(workload, count);
  }
}

/** An entry while the record of its call is made. */
class Making implements MadeEntry {
  readonly needsRecord = true;
  readonly #active: Active;
  readonly #ofAll: boolean;
  readonly #options: QuarantineOptions;
  readonly #byOrg: GroupIndex;
  readonly #done: (isStored: boolean) => void;
  #entry: QuarantineEntry | undefined;
  #posted: Posted | undefined;

  constructor(active: Active, ofAll: boolean, options: QuarantineOptions, byOrg: GroupIndex, done: (isStored: boolean) => void) {
    this.#active = active;
    this.#ofAll = ofAll;
    this.#options = options;
    this.#byOrg = byOrg;
    this.#done = done;
  }

  effects(record: ExecutionRecord): readonly Effect[] {
    const { id, reason, reason_codes } = this.#active;
    const entry: QuarantineEntry = {
      quarantine_id: id,
      org_id: record.org_id,
      workload_id: record.workload_id,
      ...(this.#ofAll ? {} : whom(record)),
      action_type: record.action_type,
      reason,
      reason_codes,
      risk_score: record.risk_score ?? 0,
      record_id: record.record_id,
      created_at: timestamp(this.#options.clock.now()),
      released_at: null,
      released_by: null,
    };
    this.#entry = entry;
    this.#posted = this.#options.outbox.post('quarantine', entry);
    return [
      { op: 'put', space: SPACE, key: newestFirst(id), value: entry },
      { op: 'put', space: ACTIVE, key: id, value: this.#active },
      this.#byOrg.put(record.org_id, id),
      ...this.#posted.effects,
    ];
  }

  stored(): void {
    this.#done(true);
    this.#posted?.stored();
    if (this.#entry) this.#options.events.emit('quarantine', this.#entry);
  }

  failed(): void {
    this.#posted?.failed();
    this.#done(false);
  }

  abandoned(): void {
    this.#done(false);
  }
}

/** Who has named himself is known by that name, wherever he calls from. */
function whom({ caller_id: callerId, caller_ip: callerIp }: ExecutionRecord): Pick<QuarantineEntry, 'caller_id' | 'caller_ip'> {
  return { ...(callerId === undefined ? {} : { caller_id: callerId }), ...(callerIp === undefined ? {} : { caller_ip: callerIp }) };
}

/** A name and an address that read the same are two callers. */
function callerText(callerId: string | undefined, callerIp: string): string {
  return callerId === undefined ? `ip ${callerIp}` : `id ${callerId}`;
}

function shareOf(active: Active): Sharer {
  return active.share ?? { org: orgOfActive(active), caller: '' };
}

function orgOfActive({ key }: Active): string {
  return key.slice(0, key.indexOf(SEPARATOR));
}

function keyOf(orgId: string, workloadId: string, caller: string): string {
  return `${orgId}${SEPARATOR}${workloadId}${SEPARATOR}${caller}`;
}
