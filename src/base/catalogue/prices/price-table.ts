import { Lru } from '../../lib/lru.ts';
import { picoFromUsd } from '../../lib/money.ts';
import { fittingRule, ruleText } from '../price-list/match-names.ts';
import type { PriceList } from '../price-list/price-list.ts';
import type { ListedPrice, Price } from '../types.ts';
import type { PriceExplanation } from './price-explanation.ts';
import { MAKERS_LANE, type PriceLane } from './price-lane.ts';
import { type Complement, Completion, costsNothing, freeLink, listLink, type PriceLink, rowsLink } from './price-links.ts';
import { type Candidate, candidatesOf, LONGEST_NAME } from './price-names.ts';
import { PriceTerms } from './price-terms.ts';
import { ANY_PROVIDER, type DatedRow, RateList, type RatesRow } from './rate-list.ts';
import { MaxOutputs } from './shipped-rows.ts';

/** Any unlisted model (specification, "Cost estimation"). */
export const DEFAULT_PRICE: Price = Object.freeze({
  in: '10',
  out: '30',
  source: 'default',
  maxOutputTokens: undefined,
});

/** Names of models are what callers make of them: of each provider's the ones that were asked for last are kept. */
const KEPT_NAMES = 1_000;

/** What the table is made of. */
export interface PriceSources {
  /** The operator's file. */
  readonly overrides: RateList;
  /** What lies above the list, each with its reason. */
  readonly corrections: RateList;
  readonly list: PriceList;
  /** Rows for what the list lacks. */
  readonly own: RateList;
  readonly outputs: MaxOutputs;
  readonly terms: PriceTerms;
  readonly lanes: readonly PriceLane[];
}

/** What prices names beside the list and the operator's file, as data. */
export interface PriceGrounds {
  readonly lanes: readonly PriceLane[];
  readonly corrections: readonly DatedRow[];
  readonly own: readonly DatedRow[];
}

/** Where the price of one name comes from: the first link that has one at the moment of a call. */
interface Resolved {
  /** Where it is the same at every moment. */
  readonly fixed: Price | undefined;
  readonly links: readonly PriceLink[];
}

interface OpenLane {
  readonly lane: PriceLane;
  readonly known: Lru<string, Resolved>;
}

/**
 * Prices by provider, model and moment (decisions 6.3, 6.16): the operator's, then corrections, the price list, own
 * rows for what it lacks, and the default. A name that has none is looked for without its decorations. What was found
 * for a name is kept, so that finding it again costs one look-up.
 */
export class PriceTable {
  readonly #sources: PriceSources;
  readonly #completion = new Completion();
  readonly #lanes: ReadonlyMap<string, OpenLane>;
  readonly #makers: OpenLane;
  /** By address of what a provider without a row is reached at. */
  readonly #addresses = new Lru<string, OpenLane>({ max: KEPT_NAMES });

  constructor(sources: PriceSources) {
    this.#sources = sources;
    this.#lanes = new Map(sources.lanes.map((lane) => [lane.provider, open(lane)]));
    this.#makers = open(MAKERS_LANE);
  }

  /** A table for comparing lists: without the operator's file, terms and maximum outputs. */
  static of(list: PriceList, { lanes, corrections, own }: PriceGrounds): PriceTable {
    const none = { overrides: new RateList(), outputs: new MaxOutputs(), terms: new PriceTerms() };
    return new PriceTable({ ...none, list, lanes, corrections: RateList.of(corrections), own: RateList.of(own) });
  }

  get grounds(): PriceGrounds {
    const { lanes, corrections, own } = this.#sources;
    return { lanes, corrections: corrections.rows(), own: own.rows() };
  }

  get list(): PriceList {
    return this.#sources.list;
  }

  /** The same with another price list. */
  withList(list: PriceList): PriceTable {
    return new PriceTable({ ...this.#sources, list });
  }

  /** The same with the operator's rates over everything. */
  withOverrides(overrides: RateList): PriceTable {
    return new PriceTable({ ...this.#sources, overrides });
  }

  /**
   * @param at epoch milliseconds of the call: some prices change on a day, some by the hour
   * @returns the price that holds then, the same object for the same price; never undefined
   */
  find(providerId: string, model: string | undefined, at: number): Price {
    return model === undefined ? DEFAULT_PRICE : this.#findIn(this.#lanes.get(providerId) ?? this.#makers, model, at);
  }

  /**
   * As {@link find}, of a provider that has no row: by the list of who is at its address, `https://host:port/path`,
   * else by those of the makers.
   */
  findAt(address: string, model: string | undefined, at: number): Price {
    return model === undefined ? DEFAULT_PRICE : this.#findIn(this.#laneAt(address), model, at);
  }

  /** Why {@link find} finds what it finds. */
  explain(providerId: string, model: string, at: number): PriceExplanation {
    return this.#explainIn((this.#lanes.get(providerId) ?? this.#makers).lane, model, at);
  }

  explainAt(address: string, model: string, at: number): PriceExplanation {
    return this.#explainIn(this.#laneAt(address).lane, model, at);
  }

  /** Where a name's price comes from when all days have begun; undefined: nobody knows it. Nothing of it is kept. */
  source(lane: PriceLane, model: string): PriceLink | undefined {
    return this.#resolve(lane, nameOf(model)).links.find((link) => link.priceAt(Number.POSITIVE_INFINITY) !== undefined);
  }

  /**
   * Whether a row or the list spells a name out, as every copy of the program knows it; neither patterns nor what the
   * operator says count.
   */
  spellsOut(providerId: string, model: string): boolean {
    const name = nameOf(model);
    const { corrections, own, list } = this.#sources;
    if ([corrections, own].some((rows) => rows.chains(providerId, name).length > 0)) return true;
    return (this.#lanes.get(providerId)?.lane.lists ?? []).some((id) => {
      const found = list.find(id, name)?.model;
      return found !== undefined && (found.id.toLowerCase() === name || 'equals' in fittingRule(found.match, name));
    });
  }

  /**
   * All rates in force at a moment, and what holds where none does. Of a provider's rows for one name the one that
   * counts.
   */
  prices(at: number): readonly ListedPrice[] {
    const { overrides, corrections, own } = this.#sources;
    const taken = new Set<string>();
    const rows: ListedPrice[] = [];
    const add = (row: ListedPrice): void => {
      const key = `${row.provider}\n${row.model}`;
      if (!taken.has(key)) rows.push(row);
      taken.add(key);
    };
    for (const row of corrections.list(at)) add(row);
    for (const { lane } of this.#lanes.values()) for (const row of this.#listed(lane, at)) add(row);
    for (const row of own.list(at)) add(row);
    return [...overrides.list(at), ...rows, { provider: ANY_PROVIDER, model: ANY_PROVIDER, price: DEFAULT_PRICE }];
  }

  *#listed(lane: PriceLane, at: number): Generator<ListedPrice> {
    for (const asked of lane.lists ?? []) {
      for (const { list, model } of this.#sources.list.models(asked)) {
        const name = model.id.toLowerCase();
        const candidate = { name, lists: lane.lists, free: false, exact: true, steps: [] };
        const found = { asked, list, model };
        const price = listLink(candidate, found, this.#completion, this.#complement(lane, [name], found)).priceAt(at);
        if (price !== undefined) yield { provider: lane.provider, model: name, price };
      }
    }
  }

  #laneAt(address: string): OpenLane {
    const known = this.#addresses.get(address);
    if (known !== undefined) return known;
    const id = this.#sources.list.atAddress(address);
    const lane = id === undefined ? this.#makers : open({ ...MAKERS_LANE, lists: [id] });
    this.#addresses.set(address, lane);
    return lane;
  }

  #findIn({ lane, known }: OpenLane, model: string, at: number): Price {
    let resolved = known.get(model);
    if (resolved === undefined) {
      resolved = this.#resolve(lane, nameOf(model));
      if (model.length <= LONGEST_NAME) known.set(model, resolved);
    }
    return resolved.fixed ?? priceOf(resolved, at);
  }

  #resolve(lane: PriceLane, name: string): Resolved {
    const links: PriceLink[] = [];
    if (name.length > LONGEST_NAME) links.push(...this.#rowLinks(lane, { name, lists: [], free: false, exact: true, steps: [] }));
    else {
      for (const level of this.#levels(lane, name)) {
        const last = links.findIndex(({ always }) => always);
        if (last === -1) links.push(...dearestFirst(level.map((candidate) => this.#linksOf(lane, candidate))).flat());
        else if (isByPattern(links[last])) links.splice(last, 0, ...this.#corrections(lane, level));
        else break;
      }
    }
    const [first] = links;
    return { fixed: first === undefined ? DEFAULT_PRICE : first.fixed, links };
  }

  /**
   * Of other ways to write a name that a pattern of the list has caught: a correction names its model, a pattern does
   * not.
   */
  #corrections(lane: PriceLane, level: readonly Candidate[]): readonly PriceLink[] {
    return level
      .filter(({ exact }) => exact)
      .flatMap((candidate) => this.#linksOf(lane, candidate))
      .filter(({ origin }) => origin === 'correction');
  }

  /** Candidates with equally many decorations taken off, the fewest first. */
  *#levels(lane: PriceLane, name: string): Generator<readonly Candidate[]> {
    let level: Candidate[] = [];
    for (const candidate of candidatesOf(lane, name, (list) => this.#sources.list.fallbacksOf(list))) {
      if (level[0] !== undefined && candidate.steps.length > level[0].steps.length) {
        yield level;
        level = [];
      }
      level.push(candidate);
    }
    yield level;
  }

  /** Rows alone: a name that is too long for rules may still be spelt out. */
  #rowLinks(lane: PriceLane, candidate: Candidate): readonly PriceLink[] {
    return this.#linksOf({ ...lane, lists: [] }, candidate);
  }

  #linksOf(lane: PriceLane, candidate: Candidate): readonly PriceLink[] {
    if (candidate.free) return [freeLink(candidate)];
    const { overrides, corrections, own } = this.#sources;
    const listed = this.#inList(lane, candidate);
    const complement = this.#complement(lane, [candidate.name], listed?.listed);
    const finish = (price: Price): Price => this.#completion.complete(price, complement);
    // A correction that says what the list says is none: the list says more than its two rates.
    const corrected = (price: Price, at: number): Price | undefined => {
      const inList = listed?.priceAt(at);
      return inList !== undefined && inList.in === price.in && inList.out === price.out ? undefined : finish(price);
    };
    const rows = (list: RateList, origin: PriceLink['origin'], how: Parameters<typeof rowsLink>[3]): readonly PriceLink[] =>
      list.chains(lane.provider, candidate.name).flatMap((chain) => rowsLink(origin, candidate, chain, how) ?? []);
    const listLinks = listed === undefined ? [] : [listed];
    const ownLinks = rows(own, 'own', { finish, steady: true });
    const links = [
      ...rows(overrides, 'override', { finish: (price) => price, steady: true }),
      ...rows(corrections, 'correction', { finish: corrected, steady: listed === undefined || listed.fixed !== undefined }),
      ...(lane.lists === undefined ? [...ownLinks, ...listLinks] : [...listLinks, ...ownLinks]),
    ];
    return candidate.exact ? links : links.filter((link) => isSure(link) || !costsNothingAtLast(link));
  }

  #inList(lane: PriceLane, candidate: Candidate): PriceLink | undefined {
    const { list } = this.#sources;
    const maker = candidate.lists === undefined ? list.maker(candidate.name) : undefined;
    const lists = candidate.lists ?? (maker === undefined ? [] : [maker]);
    const links: PriceLink[] = [];
    for (const asked of lists) {
      const found = list.find(asked, candidate.name);
      if (found === undefined) continue;
      const complement = this.#complement(lane, [candidate.name], { asked, ...found });
      const link = listLink(candidate, { asked, ...found }, this.#completion, complement);
      // Nobody has said which of its suppliers a router takes: the dearest is not too little.
      if (lane.suppliers === undefined || candidate.lists !== lane.lists) return link;
      links.push(link);
    }
    return dearestOf(links);
  }

  #complement(
    lane: PriceLane,
    names: readonly string[],
    listed: PriceLink['listed'] | Parameters<typeof listLink>[1] | undefined,
  ): Complement {
    const { outputs, terms } = this.#sources;
    const known = listed === undefined ? names : [...names, listed.model.id.toLowerCase()];
    return {
      terms: listed === undefined ? undefined : terms.of(listed.asked, listed.model.id),
      maxOutputTokens: outputs.of(lane.provider, known),
    };
  }

  #explainIn(lane: PriceLane, model: string, at: number): PriceExplanation {
    const name = nameOf(model);
    const { links } = this.#resolve(lane, name);
    const link = links.find((one) => one.priceAt(at) !== undefined);
    if (link === undefined) return { price: DEFAULT_PRICE, from: 'default', name, steps: [] };
    const price = link.priceAt(at) ?? DEFAULT_PRICE;
    const { candidate, origin, listed } = link;
    const row = link.rowAt?.(at);
    const condition = listed?.conditionAt(at);
    return {
      price,
      from: origin,
      name: candidate.name,
      steps: candidate.steps,
      ...(row === undefined ? {} : { row: shownRow(row) }),
      ...(listed === undefined
        ? {}
        : {
            listed: {
              list: listed.asked,
              ...(listed.list === listed.asked ? {} : { through: listed.list }),
              model: listed.model.id,
              rule: ruleText(fittingRule(listed.model.match, candidate.name)),
              ...(condition === undefined ? {} : { period: condition }),
            },
          }),
    };
  }
}

function open(lane: PriceLane): OpenLane {
  return { lane, known: new Lru<string, Resolved>({ max: KEPT_NAMES }) };
}

function nameOf(model: string): string {
  return model.toLowerCase().trim();
}

function priceOf({ links }: Resolved, at: number): Price {
  for (const link of links) {
    const price = link.priceAt(at);
    if (price !== undefined) return price;
  }
  return DEFAULT_PRICE;
}

/**
 * Where somebody says of this very name that it costs nothing, it does. A name without its decorations, or what a maker
 * gives away, is no reason to charge nothing.
 */
function isSure({ origin, candidate }: PriceLink): boolean {
  return origin === 'override' || (origin !== 'list' && candidate.steps.length === 0);
}

/** A price of the list whose model is not spelt out there. */
function isByPattern(link: PriceLink | undefined): boolean {
  if (link?.listed === undefined) return false;
  const { candidate, listed } = link;
  return listed.model.id.toLowerCase() !== candidate.name && !('equals' in fittingRule(listed.model.match, candidate.name));
}

function costsNothingAtLast(link: PriceLink): boolean {
  const price = link.priceAt(Number.POSITIVE_INFINITY);
  return price !== undefined && costsNothing(price);
}

/**
 * Of names that are equally far from the one that was asked for, nobody can say which one is meant: the dearest is not
 * too little.
 */
function dearestFirst(candidates: readonly (readonly PriceLink[])[]): readonly (readonly PriceLink[])[] {
  if (candidates.length < 2) return candidates;
  return [...candidates].sort(([one], [other]) => {
    const [a, b] = [worth(one), worth(other)];
    return a === b ? 0 : a > b ? -1 : 1;
  });
}

function dearestOf(links: readonly PriceLink[]): PriceLink | undefined {
  let [dearest] = links;
  for (const link of links) if (worth(link) > worth(dearest)) dearest = link;
  return dearest;
}

/** Rates of both sides together, to compare them. */
function worth(link: PriceLink | undefined): bigint {
  const price = link?.priceAt(Number.POSITIVE_INFINITY);
  return price === undefined ? 0n : picoFromUsd(price.in) + picoFromUsd(price.out);
}

function shownRow({ provider, model, origin, reason }: RatesRow): NonNullable<PriceExplanation['row']> {
  return { provider, model, ...(origin === undefined ? {} : { origin }), ...(reason === undefined ? {} : { reason }) };
}
