import type { CatalogueInForce } from '../../base/catalogue/catalogue-in-force.ts';
import type { JudgedList } from '../../base/catalogue/price-list/judge-list.ts';
import type { ListDiff, ListedModel, RateChange } from '../../base/catalogue/price-list/list-diff.ts';
import type { ListProvider } from '../../base/catalogue/price-list/list-shape.ts';
import { judgeInThread } from '../../base/catalogue/price-list/list-thread.ts';
import { type ListIdentity, PriceList } from '../../base/catalogue/price-list/price-list.ts';
import { LIST_SCHEMA } from '../../base/catalogue/price-list/read-list.ts';
import type { PriceListSource } from '../../base/config/price-list-source.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { Turn } from '../../base/lib/turn.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, Register } from '../registers/register.ts';
import { dayOf, type GivenList } from './list-sources.ts';
import { PRICE_LIST_KEY, PRICE_LIST_SPACE, packed, readStored, type SeenSource, type StoredList, unpacked } from './stored-list.ts';
import { pricesTold } from './told-prices.ts';

const DAY_MS = 86_400_000;

/** How somebody changes the list. */
export interface ListChange {
  /** The id of a principal, or of a node for what its setting says. */
  readonly by: string;
  readonly commit: Commit;
}

/** A list beside the one in force. */
export interface ComparedList {
  readonly diff: ListDiff;
  /** What of it needs somebody's yes. */
  readonly held: readonly RateChange[];
  /** What it says and this version of the program does not understand. */
  readonly warnings: readonly string[];
}

/** What became of a list that was given. */
export interface TakenOutcome extends ComparedList {
  /**
   * `unchanged`: it is in force already, or was the last time that its source was asked; `older`: than the one in
   * force, which stays.
   */
  readonly outcome: 'taken' | 'unchanged' | 'older';
  /** The day that an older one is of. */
  readonly day?: string;
}

/** The list in force, and where it comes from. */
export interface ListInForce extends ListIdentity {
  readonly kind: GivenList['kind'] | 'shipped';
  /** For people. */
  readonly name: string;
  readonly taken_at?: string;
  readonly taken_by?: string;
}

export interface PriceListsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly catalogues: CatalogueInForce;
  /** `GW_PRICE_LIST`. */
  readonly source: PriceListSource;
}

/** What is kept in the store, read. */
interface Loaded {
  readonly stored: StoredList & Required<Pick<StoredList, 'list'>>;
  readonly list: PriceList;
  readonly held: readonly RateChange[];
  readonly warnings: readonly string[];
}

const NO_CHANGE = { diff: { added: [], removed: [], changed: [] }, held: [], warnings: [] } as const;

/**
 * The price list in force, as it is renewed without a release (decision 6.16): a list that was read without a mistake
 * is compared with the one before, kept in the store, and put in its place in one step. A call goes on with the list
 * that it began with. What other nodes of the store take is taken here, too.
 */
export class PriceLists {
  readonly #options: PriceListsOptions;
  readonly #space: Register<StoredList>;
  readonly #shipped: PriceList;
  #loaded: Loaded | undefined;
  #seen: SeenSource | undefined;
  /** Of what is stored, as it was brought in last; undefined: there is none. */
  #revision: string | undefined;
  #unusable: string | undefined;
  #isOpen = false;
  /** One change after the other: each is compared with the list that the one before has put in force. */
  readonly #turn = new Turn();
  /** By outcome; for the metrics. */
  readonly counts: Record<'taken' | 'unchanged' | 'refused' | 'failed', number> = { taken: 0, unchanged: 0, refused: 0, failed: 0 };

  private constructor(options: PriceListsOptions, space: Register<StoredList>) {
    this.#options = options;
    this.#space = space;
    this.#shipped = options.catalogues.shipped().priceList;
  }

  /** Puts the list in force that was taken last, unless that of the package is newer. */
  static async open(options: PriceListsOptions): Promise<PriceLists> {
    let lists: PriceLists | undefined;
    const changed = (): void => {
      if (lists !== undefined) lists.#hear();
    };
    lists = new PriceLists(options, await Register.open(options.store, PRICE_LIST_SPACE, { read: readStored, changed }));
    await lists.#turn.take(() => lists.#load());
    lists.#isOpen = true;
    return lists;
  }

  get shipped(): ListIdentity {
    return this.#shipped.identity;
  }

  get inForce(): ListInForce {
    const { identity } = this.#current();
    const loaded = this.#holding();
    if (loaded === undefined) return { ...identity, kind: 'shipped', name: 'shipped' };
    const { kind, name, taken_at: at, taken_by: by } = loaded.stored.list;
    return { ...identity, kind, name, taken_at: at, taken_by: by };
  }

  /** The changes of the newest list that wait for somebody's yes. */
  get held(): readonly RateChange[] {
    return this.#holding()?.held ?? [];
  }

  /** What the list in force says and this version of the program does not understand. */
  get unknown(): readonly string[] {
    return this.#holding()?.warnings ?? [];
  }

  /** What the source of the setting had when it was last taken. */
  get seen(): SeenSource | undefined {
    return this.#seen;
  }

  /** From the day that the list in force is of. */
  get ageSeconds(): number {
    const { date } = this.#current().identity;
    return date === undefined ? 0 : Math.max(0, (this.#options.clock.now() - Date.parse(`${date}T00:00:00Z`)) / 1_000);
  }

  get ageDays(): number {
    return Math.floor((this.ageSeconds * 1_000) / DAY_MS);
  }

  warnings(): readonly HealthWarning[] {
    const models = new Set(this.held.map(({ provider, model }) => `${provider} ${model}`)).size;
    return [
      ...(this.#unusable === undefined ? [] : [{ code: 'price_list_unusable', message: this.#unusable }]),
      ...(models === 0
        ? []
        : [{ code: 'price_list_held', message: `Prices of ${models} model(s) wait for a yes: gw prices status, gw prices accept.` }]),
    ];
  }

  /**
   * Takes a list: from the next call on it is in force.
   * @param unasked nobody asked for it but a setting: it is left where its source had it the last time, or, at an
   * address, where it is older than the one in force
   * @throws GatewayError `invalid_price_list` with every mistake; `conflict` when somebody else has changed the list at
   * the same moment. The one before stays in force
   */
  take(given: GivenList, change: ListChange, unasked = false): Promise<TakenOutcome> {
    return this.#turn.take(async () => {
      try {
        const taken = await this.#take(given, change, unasked);
        this.counts[taken.outcome === 'taken' ? 'taken' : 'unchanged'] += 1;
        return taken;
      } catch (error) {
        this.counts[error instanceof GatewayError && error.code === 'invalid_price_list' ? 'refused' : 'failed'] += 1;
        throw error;
      }
    });
  }

  /** The text of a list, read from where it is; a failure is counted. */
  async had<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      this.counts.failed += 1;
      throw error;
    }
  }

  /** Its source still has what it had. */
  same(): TakenOutcome {
    this.counts.unchanged += 1;
    return { ...NO_CHANGE, outcome: 'unchanged' };
  }

  /**
   * What a list says that the one in force does not, and what of it would be held.
   * @throws GatewayError `invalid_price_list`
   */
  async compare(given: GivenList): Promise<ComparedList> {
    const { diff, held, warnings } = await this.#judged(given.text, given.name, this.#current().providers);
    return { diff, held, warnings };
  }

  /** The same of the list of the package. */
  async compareShipped(): Promise<ComparedList> {
    const text = JSON.stringify({ schema: LIST_SCHEMA, providers: this.#shipped.providers });
    const { diff } = await this.#judged(text, 'shipped', this.#current().providers);
    return { ...NO_CHANGE, diff };
  }

  /** Puts the list of the package back into force, whatever was taken. @throws GatewayError `conflict` */
  backToShipped({ commit }: ListChange): Promise<TakenOutcome> {
    return this.#turn.take(async () => {
      if (this.#holding() === undefined) return { ...NO_CHANGE, outcome: 'unchanged' };
      const { diff } = await this.compareShipped();
      await this.#store({ revision: this.#nextRevision(), ...this.#seenMember() }, 'shipped', commit, { diff });
      this.#options.log.info({ source: 'shipped', date: this.shipped.date }, 'the price list of the package is in force');
      this.counts.taken += 1;
      return { ...NO_CHANGE, outcome: 'taken', diff };
    });
  }

  /**
   * Lets changes hold that wait for a yes.
   * @param which the models that they are of
   * @returns the changes that hold from now on
   * @throws GatewayError `not_found` for a model of which none waits; `conflict`
   */
  accept(which: readonly ListedModel[] | 'all', { commit }: ListChange): Promise<readonly RateChange[]> {
    return this.#turn.take(async () => {
      const loaded = this.#holding();
      const held = loaded?.held ?? [];
      const waits = (one: ListedModel): boolean => held.some((change) => isOf(change, one));
      const strange = which === 'all' ? undefined : which.find((one) => !waits(one));
      if (strange !== undefined) throw new GatewayError('not_found', `No price of ${strange.provider} ${strange.model} waits for a yes.`);
      if (loaded === undefined || held.length === 0) return [];
      const { list, ...others } = loaded.stored;
      const { kept: _, ...published } = list;
      const judged = await this.#judged(await unpacked(list.text), list.name, loaded.list.providers, which);
      const stored = { ...others, revision: this.#nextRevision(), list: { ...published, ...(await keptMember(judged)) } };
      const accepted = held.filter((change) => which === 'all' || which.some((one) => isOf(change, one)));
      const diff = { ...NO_CHANGE.diff, changed: accepted.map((change) => ({ ...change, held: false })) };
      await this.#store(stored, list.sha256, commit, { diff }, judged);
      this.#options.log.info({ accepted: accepted.length, held: this.held.length }, 'prices that were held back are in force');
      return accepted;
    });
  }

  async #take(given: GivenList, change: ListChange, unasked: boolean): Promise<TakenOutcome> {
    const { clock, log } = this.#options;
    const sha256 = sha256Hex(given.text);
    const isKnown = unasked && this.#seen?.name === given.name && this.#seen.sha256 === sha256;
    if (isKnown || this.#holding()?.stored.list.sha256 === sha256) return { ...NO_CHANGE, outcome: 'unchanged' };
    const before = this.#current();
    const judged = await this.#judged(given.text, given.name, before.providers);
    const today = dayOf(clock.now());
    const said = judged.date ?? given.day;
    const date = said > today ? today : said;
    if (unasked && given.kind === 'address' && date < (before.identity.date ?? '')) return { ...NO_CHANGE, outcome: 'older', day: date };
    const stored: Loaded['stored'] = {
      revision: this.#nextRevision(),
      ...this.#seenMember(given, sha256),
      list: {
        text: await packed(given.text),
        ...(await keptMember(judged)),
        sha256,
        ...(judged.version === undefined ? {} : { version: judged.version }),
        date,
        kind: given.kind,
        name: given.name,
        taken_at: timestamp(clock.now()),
        taken_by: change.by,
        over: this.#shipped.identity.sha256,
      },
    };
    await this.#store(stored, sha256, change.commit, judged, judged);
    const { added, removed, changed } = judged.diff;
    const counts = { added: added.length, removed: removed.length, changed: changed.length, held: judged.held.length };
    log.info({ source: given.name, date, sha256, ...counts }, 'another price list is in force');
    return { outcome: 'taken', diff: judged.diff, held: judged.held, warnings: judged.warnings };
  }

  /** @throws GatewayError `invalid_price_list` */
  async #judged(
    text: string,
    name: string,
    before?: readonly ListProvider[],
    accepted: readonly ListedModel[] | 'all' = [],
  ): Promise<JudgedList> {
    const grounds = this.#options.catalogues.shipped().priceGrounds;
    const judged = await judgeInThread({ text, file: name, before, grounds, accepted }, this.#options);
    const [first, ...others] = judged.problems;
    if (first === undefined) return judged;
    const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
    throw new GatewayError(
      'invalid_price_list',
      `The price list of ${name} cannot be used; the one before stays in force: ${`${first.path} ${first.message}`.trim()}${more}.`,
      { details: judged.problems },
    );
  }

  /**
   * Stores what is given and puts it in force.
   * @throws GatewayError `conflict`, or as `Store.commit`; nothing has changed then
   */
  async #store(stored: StoredList, object: string, commit: Commit, { diff }: Pick<JudgedList, 'diff'>, judged?: JudgedList): Promise<void> {
    const conflict = (): GatewayError =>
      new GatewayError('conflict', 'Somebody else has changed the price list at the same moment: look at it again.');
    const next = (current: StoredList | undefined, along: Along): StoredList => {
      if (current?.revision !== this.#revision) throw conflict();
      along.told = pricesTold(diff);
      return stored;
    };
    await this.#space.change(PRICE_LIST_KEY, next, { commit, object, conflict });
    const now = this.#space.get(PRICE_LIST_KEY);
    // Another writer was quicker to change it again: what is told of that reads it.
    if (now?.revision !== stored.revision) return;
    this.#become(now, now.list === undefined || judged === undefined ? undefined : loadedOf({ ...now, list: now.list }, judged));
  }

  #hear(): void {
    void this.#turn.take(() => this.#load());
  }

  /** Brings in what the store has. Never rejects for what stands there: the list in force stays then. */
  async #load(): Promise<void> {
    const { log } = this.#options;
    const stored = this.#space.get(PRICE_LIST_KEY);
    if (stored?.revision === this.#revision) return;
    try {
      const list = stored?.list;
      this.#become(stored, stored === undefined || list === undefined ? undefined : await this.#read({ ...stored, list }));
      if (this.#isOpen) log.info({ source: this.inForce.name, date: this.inForce.date }, 'another node has changed the price list');
    } catch (error) {
      this.#revision = stored?.revision;
      this.#unusable = `The price list that is stored cannot be used; that of ${this.inForce.date ?? 'before'} stays in force: ${messageOf(error)}`;
      log.error({ err: error }, 'the price list that is stored cannot be used; the one before stays in force');
    }
  }

  /** @throws Error for what this version of the program cannot read */
  async #read(stored: Loaded['stored']): Promise<Loaded> {
    const { text, kept, name } = stored.list;
    const published = await unpacked(text);
    if (kept === undefined) return loadedOf(stored, await this.#judged(published, name));
    const before = await judgeInThread({ text: await unpacked(kept), file: name, kept: true }, this.#options);
    if (before.problems[0] !== undefined) throw new Error(before.problems[0].message);
    return loadedOf(stored, { ...(await this.#judged(published, name, before.providers)), inForce: before.providers });
  }

  #become(stored: StoredList | undefined, loaded: Loaded | undefined): void {
    this.#revision = stored?.revision;
    this.#seen = stored?.seen;
    this.#unusable = undefined;
    this.#loaded = loaded;
    const { catalogues } = this.#options;
    const list = this.#current();
    if (catalogues.shipped().priceList !== list) catalogues.replacePriceList(list);
  }

  #current(): PriceList {
    return this.#holding()?.list ?? this.#shipped;
  }

  /**
   * What was taken, while it holds: until a release brings a newer list. One that the operator's file says holds
   * whatever its day is, and so does one that was taken although the package had a newer one.
   */
  #holding(): Loaded | undefined {
    const loaded = this.#loaded;
    if (loaded === undefined) return undefined;
    const { date, over, kind, name } = loaded.stored.list;
    const { identity } = this.#shipped;
    const isOwnFile = kind === 'file' && this.#options.source.kind === kind && this.#options.source.name === name;
    return isOwnFile || over === identity.sha256 || date >= (identity.date ?? '') ? loaded : undefined;
  }

  #seenMember(given?: GivenList, sha256 = ''): Pick<StoredList, 'seen'> {
    if (given === undefined || given.name !== this.#options.source.name) return this.#seen === undefined ? {} : { seen: this.#seen };
    return { seen: { name: given.name, sha256, ...(given.etag === undefined ? {} : { etag: given.etag }) } };
  }

  #nextRevision(): string {
    return uuidv7(this.#options.clock.now());
  }
}

function isOf(change: RateChange, { provider, model }: ListedModel): boolean {
  return change.provider === provider && change.model === model;
}

function loadedOf(stored: Loaded['stored'], { inForce, held, warnings, version }: JudgedList): Loaded {
  const { date, sha256 } = stored.list;
  return { stored, list: new PriceList(inForce, { version, date }, sha256), held, warnings };
}

/** The list with the old value of what is held, where that is another one than the list that was published. */
async function keptMember({ inForce, held }: JudgedList): Promise<{ readonly kept?: string }> {
  return held.length === 0 ? {} : { kept: await packed(JSON.stringify({ schema: LIST_SCHEMA, providers: inForce })) };
}
