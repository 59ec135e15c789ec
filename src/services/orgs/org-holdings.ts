import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Bound } from '../../base/model/bound.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';

/** Things of orgs in one space of the store, and how many of them one org may have. */
export interface HeldThings {
  readonly space: string;
  readonly bound: Bound & { readonly org: number };
  /** The org that one is of; undefined: of none, or it does not count. */
  readonly orgOf: (key: string, value: unknown) => string | undefined;
  /** How many of what is bounded one has. Default 1. */
  readonly countOf?: (value: unknown) => number;
}

/** Places that a commit takes, until it is known what became of it. */
export interface TakenPlaces {
  /** The commit is stored: its things are there. */
  stored(): void;
  /** Nothing of it is under way any more. */
  release(): void;
}

const NOTHING_TAKEN: TakenPlaces = { stored() {}, release() {} };

/**
 * How many things of each kind an org has, by whichever writer of the store, and the bound on each (decision 7.12).
 * What is there beyond a bound stays; nothing is added to it. What is of no org is the operator's own, and has no
 * bound.
 */
export class OrgHoldings {
  readonly #kinds = new Map<string, Kind[]>();

  private constructor(kinds: readonly Kind[]) {
    for (const kind of kinds) this.#kinds.set(kind.space, [...(this.#kinds.get(kind.space) ?? []), kind]);
  }

  /** @throws Error when the store cannot be read */
  static async open(store: Pick<Store, 'list' | 'watch'>, things: readonly HeldThings[]): Promise<OrgHoldings> {
    const kinds = things.map((one) => new Kind(one));
    for (const kind of kinds) await kind.open(store);
    return new OrgHoldings(kinds);
  }

  /**
   * Takes places for what these effects add to orgs.
   * @throws GatewayError `limit_reached` when an org has as many as it may; then nothing is taken
   */
  take(effects: readonly Effect[]): TakenPlaces {
    const added = effects.flatMap((effect) => {
      if (effect.op !== 'put') return [];
      const { space, key, value } = effect;
      return (this.#kinds.get(space) ?? []).flatMap((kind) => kind.added(key, value).map((of) => ({ kind, key, value, of })));
    });
    if (added.length === 0) return NOTHING_TAKEN;
    const taken: typeof added = [];
    const release = (): void => {
      for (const { kind, of } of taken.splice(0)) kind.release(of);
    };
    for (const one of added) {
      if (!one.kind.reserve(one.of)) {
        release();
        throw one.kind.reached(one.of);
      }
      taken.push(one);
    }
    return {
      stored: () => {
        for (const { kind, key, value } of taken) kind.learn(key, value);
      },
      release,
    };
  }
}

/** So many, of an org. */
interface Holding {
  readonly org: string;
  readonly count: number;
}

class Kind {
  readonly #things: HeldThings;
  /** Of each thing that counts. */
  readonly #known = new Map<string, Holding>();
  /** How many each org has. */
  readonly #counts = new Map<string, number>();
  /** How many of an org are being added. */
  readonly #coming = new Map<string, number>();

  constructor(things: HeldThings) {
    this.#things = things;
  }

  get space(): string {
    return this.#things.space;
  }

  async open(store: Pick<Store, 'list' | 'watch'>): Promise<void> {
    await store.watch(this.space, async (event) => {
      if (event.lost === true) await this.#readAll(store);
      else this.learn(event.key, event.value);
    });
    await this.#readAll(store);
  }

  /** What an org would have more of; empty where it would not. */
  added(key: string, value: unknown): readonly Holding[] {
    const after = this.#holding(key, value);
    if (after === undefined) return [];
    const before = this.#known.get(key);
    const more = after.count - (before?.org === after.org ? before.count : 0);
    return more > 0 ? [{ org: after.org, count: more }] : [];
  }

  /** @returns false: the org would have more than it may */
  reserve({ org, count }: Holding): boolean {
    const coming = (this.#coming.get(org) ?? 0) + count;
    if ((this.#counts.get(org) ?? 0) + coming > this.#things.bound.org) return false;
    this.#coming.set(org, coming);
    return true;
  }

  release({ org, count }: Holding): void {
    add(this.#coming, org, -count);
  }

  reached({ org }: Holding): GatewayError {
    const { what, org: most } = this.#things.bound;
    return new GatewayError(
      'limit_reached',
      `The org ${org} has as many as it may of: ${what} (${most}). Remove some that are not needed.`,
    );
  }

  learn(key: string, value: unknown): void {
    const after = value === undefined ? undefined : this.#holding(key, value);
    const before = this.#known.get(key);
    if (before !== undefined) add(this.#counts, before.org, -before.count);
    if (after === undefined) this.#known.delete(key);
    else {
      this.#known.set(key, after);
      add(this.#counts, after.org, after.count);
    }
  }

  #holding(key: string, value: unknown): Holding | undefined {
    const { orgOf, countOf = () => 1 } = this.#things;
    const org = orgOf(key, value);
    return org === undefined ? undefined : { org, count: countOf(value) };
  }

  async #readAll(store: Pick<Store, 'list'>): Promise<void> {
    const gone = new Set(this.#known.keys());
    for await (const { key, value } of entityRows(store, this.space)) {
      gone.delete(key);
      this.learn(key, value);
    }
    for (const key of gone) this.learn(key, undefined);
  }
}

function add(counts: Map<string, number>, org: string, by: number): void {
  const count = (counts.get(org) ?? 0) + by;
  if (count > 0) counts.set(org, count);
  else counts.delete(org);
}
