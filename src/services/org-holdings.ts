import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Bound } from '../base/model/bounds.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const PAGE = 1_000;

/** Things of orgs in one space of the store, and how many of them one org may have. */
export interface HeldThings {
  readonly space: string;
  readonly bound: Bound & { readonly org: number };
  /** The org that one is of; undefined: of none, or it does not count. */
  readonly orgOf: (key: string, value: unknown) => string | undefined;
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
 * How many things of each kind an org has, by whichever writer of the store, and the bound on each (decision 7.12). What is there beyond a bound stays; nothing is added to it.
 * What is of no org is the operator's own, and has no bound.
 */
export class OrgHoldings {
  readonly #kinds: ReadonlyMap<string, Kind>;

  private constructor(kinds: ReadonlyMap<string, Kind>) {
    this.#kinds = kinds;
  }

  /** @throws Error when the store cannot be read */
  static async open(store: Pick<Store, 'list' | 'watch'>, things: readonly HeldThings[]): Promise<OrgHoldings> {
    const kinds = things.map((one) => new Kind(one));
    for (const kind of kinds) await kind.open(store);
    return new OrgHoldings(new Map(kinds.map((kind) => [kind.space, kind])));
  }

  /** Takes places for what these effects add to orgs. @throws GatewayError `limit_reached` when an org has as many as it may; then nothing is taken */
  take(effects: readonly Effect[]): TakenPlaces {
    const added = effects.flatMap((effect) => {
      const kind = effect.op === 'put' ? this.#kinds.get(effect.space) : undefined;
      if (effect.op !== 'put' || kind === undefined) return [];
      const org = kind.isNew(effect.key, effect.value);
      return org === undefined ? [] : [{ kind, org, key: effect.key, value: effect.value }];
    });
    if (added.length === 0) return NOTHING_TAKEN;
    const taken: typeof added = [];
    const release = (): void => {
      for (const { kind, org } of taken.splice(0)) kind.release(org);
    };
    for (const one of added) {
      if (!one.kind.reserve(one.org)) {
        release();
        throw one.kind.reached(one.org);
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

class Kind {
  readonly #things: HeldThings;
  /** Of those that count, the org. */
  readonly #orgs = new Map<string, string>();
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

  /** The org to which one would be added; undefined where it has it already, or it does not count. */
  isNew(key: string, value: unknown): string | undefined {
    const org = this.#things.orgOf(key, value);
    return org === this.#orgs.get(key) ? undefined : org;
  }

  /** @returns false: the org has as many as it may */
  reserve(org: string): boolean {
    const coming = this.#coming.get(org) ?? 0;
    if ((this.#counts.get(org) ?? 0) + coming >= this.#things.bound.org) return false;
    this.#coming.set(org, coming + 1);
    return true;
  }

  release(org: string): void {
    const coming = (this.#coming.get(org) ?? 0) - 1;
    if (coming > 0) this.#coming.set(org, coming);
    else this.#coming.delete(org);
  }

  reached(org: string): GatewayError {
    const { what, org: most } = this.#things.bound;
    return new GatewayError('limit_reached', `The org ${org} has as many as it may of: ${what} (${most}). Remove some that are not needed.`);
  }

  learn(key: string, value: unknown): void {
    const org = value === undefined ? undefined : this.#things.orgOf(key, value);
    const before = this.#orgs.get(key);
    if (org === before) return;
    if (before !== undefined) this.#add(before, -1);
    if (org === undefined) this.#orgs.delete(key);
    else {
      this.#orgs.set(key, org);
      this.#add(org, 1);
    }
  }

  #add(org: string, by: 1 | -1): void {
    const count = (this.#counts.get(org) ?? 0) + by;
    if (count > 0) this.#counts.set(org, count);
    else this.#counts.delete(org);
  }

  async #readAll(store: Pick<Store, 'list'>): Promise<void> {
    const gone = new Set(this.#orgs.keys());
    for (let after: string | undefined; ; ) {
      const page = await store.list(this.space, { limit: PAGE, ...(after === undefined ? {} : { after }) });
      for (const { key, value } of page) {
        gone.delete(key);
        this.learn(key, value);
      }
      after = page.at(-1)?.key;
      if (page.length < PAGE) break;
    }
    for (const key of gone) this.learn(key, undefined);
  }
}
