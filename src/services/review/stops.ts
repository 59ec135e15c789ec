import { modelsMeantBy, spellingsOf } from '../../base/catalogue/model-spellings.ts';
import { allNamed, type NamedModels } from '../../base/catalogue/named-models.ts';
import { readingOf } from '../../base/catalogue/reading.ts';
import type { Operation, Provider } from '../../base/catalogue/types.ts';
import type { Events } from '../../base/events/bus.ts';
import { type Clock, parseTime, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { namedPrincipal, type Principal, principalWord } from '../../base/model/principal.ts';
import { STOP_MEMBERS, type Stop, type StopScope } from '../../base/model/stop.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

export const STOPS = 'stops';
/** Longest wait of a timer, milliseconds. */
const LONGEST_WAIT_MS = 2_147_483_647;

/** Where a call goes, as far as that is settled. */
export interface StoppablePlace {
  readonly connectorId: string | undefined;
  readonly provider: Provider | undefined;
  /** Undefined where it is a tunnel, in which nobody sees what is called. */
  readonly operation: Operation | undefined;
  readonly model: string | undefined;
  readonly named: NamedModels | undefined;
}

/** What stops are asked about. */
export interface StoppableCall {
  readonly orgId: string;
  readonly workloadId: string;
  /** Undefined: not settled yet, so that no stop of a provider or model holds it. */
  readonly place: StoppablePlace | undefined;
}

/** What callers are told. */
export type StopTold = Pick<Stop, 'stop_id' | 'reason'>;

export interface MadeStop {
  readonly scope: StopScope;
  readonly reason: string;
  /** RFC 3339; undefined: until somebody ends it. */
  readonly until?: string | undefined;
  readonly principal: Principal;
}

interface Standing {
  readonly stop: Stop;
  /** Epoch milliseconds. */
  readonly until: number;
  /** All spellings of its model. */
  readonly spellings: ReadonlySet<string> | undefined;
}

interface StopOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
}

/**
 * Calls that are stopped, whatever policy says of them: by org, workload, provider and model. They are known at once at
 * each writer of the store, and stand until they are ended, or end by themselves.
 */
export class StopService {
  readonly #options: StopOptions;
  readonly #stored: Register<Standing, Stop>;
  #cancel: (() => void) | undefined;
  /** Whether any stands; a field, because every call asks. */
  any = false;

  private constructor(options: StopOptions, stored: Register<Standing, Stop>) {
    this.#options = options;
    this.#stored = stored;
    this.#look();
  }

  /** @throws Error when the store cannot be read */
  static async open(options: StopOptions): Promise<StopService> {
    let service: StopService | undefined;
    const stored = await Register.openSealed<Standing, Stop>(options.store, STOPS, {
      stored: entityWith<Stop>('stop_id', 'reason', 'created_at'),
      opened: (stop) => ({
        stop,
        until: endOf(stop),
        spellings: stop.scope.model === undefined ? undefined : spellingsOf(stop.scope.model),
      }),
      orgOf: ({ stop }) => stop.scope.org,
      changed: (id, standing) => {
        if (service !== undefined) service.#changed(id, standing);
      },
    });
    service = new StopService(options, stored);
    return service;
  }

  /** By which stops end. */
  get clock(): Clock {
    return this.#options.clock;
  }

  /** How many stand. */
  get active(): number {
    return this.any ? this.list().length : 0;
  }

  /** The stop that holds a call; undefined: none. */
  holding(call: StoppableCall): StopTold | undefined {
    if (!this.any) return undefined;
    const now = this.#options.clock.now();
    const holds = (one: Standing): boolean => one.until > now && isHeld(one, call);
    const ofAll = this.#stored.ofOrg(undefined).find(holds);
    return (ofAll ?? this.#stored.ofOrg(call.orgId).find(holds))?.stop;
  }

  /** Those that stand, the newest first. @param orgId of the scopes; undefined: all */
  list(orgId?: string): readonly Stop[] {
    const now = this.#options.clock.now();
    const standing = orgId === undefined ? [...this.#stored.values()] : this.#stored.ofOrg(orgId);
    return standing
      .filter(({ until }) => until > now)
      .map(({ stop }) => stop)
      .sort((a, b) => (a.stop_id < b.stop_id ? 1 : -1));
  }

  /**
   * Refuses calls from now on, and ends those that are under way, here and at every other writer of the store.
   * @throws GatewayError `limit_reached`
   */
  async make({ scope, reason, until, principal }: MadeStop, commit?: Commit): Promise<Stop> {
    const { clock } = this.#options;
    if (scope.org === undefined && this.#stored.ofOrg(undefined).length >= CONTROL_BOUNDS.stops.all)
      throw new GatewayError('limit_reached', `There are ${CONTROL_BOUNDS.stops.all} stops without an org already; end some.`);
    const by = namedPrincipal(principal);
    const stop: Stop = {
      stop_id: uuidv7(clock.now()),
      ...(scope.org === undefined ? {} : { org_id: scope.org }),
      scope,
      reason,
      created_at: timestamp(clock.now()),
      created_by: principalWord(by),
      created_by_principal: by,
      ...(isOfOrg(principal) ? { by_org: true as const } : {}),
      ...(until === undefined ? {} : { until }),
    };
    await this.#stored.change(stop.stop_id, () => stop, { commit });
    return stop;
  }

  /**
   * Ends stops: their calls go on from the next one on.
   * @param which one of them, or all of exactly this scope
   * @returns those that were ended; empty: there is none
   * @throws GatewayError `forbidden` where a key asks for what the operator has stopped
   */
  async end(
    which: { readonly id: string } | { readonly scope: StopScope },
    principal: Principal,
    commit?: Commit,
  ): Promise<readonly Stop[]> {
    const own = this.list(principal.orgId);
    const meant = own.filter((stop) => ('id' in which ? stop.stop_id === which.id : isSameScope(stop.scope, which.scope)));
    const foreign = meant.find(({ by_org }) => isOfOrg(principal) && by_org !== true);
    if (foreign !== undefined)
      throw new GatewayError('forbidden', `The operator of the gateway has made the stop ${foreign.stop_id}, and only he can end it.`);
    const ended: Stop[] = [];
    for (const stop of meant) if (await this.#stored.remove(stop.stop_id, { commit })) ended.push(stop);
    return ended;
  }

  /** Removes those that have ended by themselves before `epochMs`. @returns how many */
  async removeBefore(epochMs: number): Promise<number> {
    const ended = [...this.#stored.values()].filter(({ until }) => until < epochMs);
    for (const { stop } of ended) await this.#stored.remove(stop.stop_id);
    return ended.length;
  }

  /** What an operator should know of this gateway. */
  warnings(): readonly { readonly code: string; readonly message: string }[] {
    const { active } = this;
    if (active === 0) return [];
    const what = active === 1 ? 'A stop stands' : `${active} stops stand`;
    return [{ code: 'calls_stopped', message: `${what}: calls are refused (\`gw stops\` shows which, \`gw resume\` ends a stop).` }];
  }

  close(): void {
    this.#cancel?.();
  }

  #changed(id: string, standing: Standing | undefined): void {
    this.#look();
    if (standing !== undefined) this.#options.events.emit('callsStopped', id);
  }

  /** Looks which stand, and once more when the next of them has ended. */
  #look(): void {
    const { clock } = this.#options;
    const now = clock.now();
    this.#cancel?.();
    this.#cancel = undefined;
    this.any = false;
    let next = Number.POSITIVE_INFINITY;
    for (const { until } of this.#stored.values()) {
      if (until <= now) continue;
      this.any = true;
      next = Math.min(next, until);
    }
    if (next !== Number.POSITIVE_INFINITY) this.#cancel = clock.after(Math.min(next - now, LONGEST_WAIT_MS), () => this.#look());
  }
}

/** Whether a key of an org asks, and not who has the admin token. */
function isOfOrg({ orgId, session }: Principal): boolean {
  return orgId !== undefined && session === undefined;
}

function endOf({ until }: Stop): number {
  return until === undefined ? Number.POSITIVE_INFINITY : (parseTime(until) ?? Number.POSITIVE_INFINITY);
}

function isSameScope(a: StopScope, b: StopScope): boolean {
  return STOP_MEMBERS.every((name) => a[name] === b[name]);
}

function isHeld({ stop: { scope }, spellings }: Standing, { workloadId, place }: StoppableCall): boolean {
  if (scope.workload !== undefined && scope.workload !== workloadId) return false;
  if (scope.provider !== undefined && !goesTo(place, scope.provider)) return false;
  return spellings === undefined || (place !== undefined && mayBe(place, spellings));
}

/** By the host as well: `generic_http` is no other name under which a provider is reached. */
function goesTo(place: StoppablePlace | undefined, provider: string): boolean {
  return place !== undefined && (place.connectorId === provider || place.provider?.id === provider);
}

/** Whether a call takes this model, or hides which one it takes. */
function mayBe({ provider, operation, model, named }: StoppablePlace, spellings: ReadonlySet<string>): boolean {
  if (provider === undefined) return false;
  if (operation === undefined || readingOf(provider, operation, model !== undefined, named).hidesModel) return true;
  const models = named === undefined ? (model === undefined ? [] : [model]) : allNamed(model, named);
  return models.some((one) => meets(modelsMeantBy(one), spellings));
}

function meets(names: ReadonlySet<string>, spellings: ReadonlySet<string>): boolean {
  for (const name of spellings) if (names.has(name)) return true;
  return false;
}
