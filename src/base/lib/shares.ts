/**
 * The rule of {@link Shares} where something else counts.
 * @param held places that one holds
 * @param free places that he and others may still take
 * @param wanted places at once
 */
export function mayTake(held: number, free: number, wanted = 1): boolean {
  return held + wanted <= free;
}

/** Who has no place left: the caller, the org, or everybody. */
export type FullFor = 'all' | 'caller' | 'org';

interface Held {
  count: number;
  readonly callers: Map<string, number>;
}

/**
 * A bounded place that several orgs use (decision 7.12). One rule shares it: **an org may take another place while it
 * holds fewer than are free**, and a caller of it while he holds fewer than his org may still take. One org alone gets
 * at most half of the places and one caller a third; however many orgs take all that they can, the next one still finds
 * some.
 */
export class Shares {
  readonly #all: number;
  readonly #orgs = new Map<string, Held>();
  #taken = 0;

  /** @param all places, for everybody together */
  constructor(all: number) {
    this.#all = all;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Places that an org holds. */
  takenBy(org: string): number {
    return this.#orgs.get(org)?.count ?? 0;
  }

  /**
   * Who is at his bound; undefined: another place may be taken.
   * @param caller absent where callers have no share of their own
   * @param places that are wanted at once
   */
  full(org: string, caller?: string, places = 1): FullFor | undefined {
    const free = this.#all - this.#taken;
    if (free < places) return 'all';
    const held = this.#orgs.get(org);
    if (held === undefined) return undefined;
    if (!mayTake(held.count, free, places)) return 'org';
    if (caller !== undefined && !mayTake(held.callers.get(caller) ?? 0, free - held.count, places)) return 'caller';
    return undefined;
  }

  /** Takes a place whatever {@link full} says: what is there already, such as after a start, counts as well. */
  take(org: string, caller?: string, places = 1): void {
    let held = this.#orgs.get(org);
    if (held === undefined) {
      held = { count: 0, callers: new Map() };
      this.#orgs.set(org, held);
    }
    held.count += places;
    this.#taken += places;
    if (caller !== undefined) this.name(org, caller, places);
  }

  /** Says which caller of the org holds places that were taken without a name. */
  name(org: string, caller: string, places = 1): void {
    const held = this.#orgs.get(org);
    if (held !== undefined) held.callers.set(caller, (held.callers.get(caller) ?? 0) + places);
  }

  /** Gives back what the same org and caller have taken. */
  give(org: string, caller?: string, places = 1): void {
    const held = this.#orgs.get(org);
    if (held === undefined) return;
    held.count -= places;
    this.#taken -= places;
    if (caller !== undefined) {
      const own = (held.callers.get(caller) ?? 0) - places;
      if (own > 0) held.callers.set(caller, own);
      else held.callers.delete(caller);
    }
    if (held.count <= 0) this.#orgs.delete(org);
  }

  /** The org that holds most: from it is taken where a place must be made free. Walks all orgs. */
  largest(): string | undefined {
    let largest: string | undefined;
    let most = 0;
    for (const [org, { count }] of this.#orgs) {
      if (count <= most) continue;
      largest = org;
      most = count;
    }
    return largest;
  }

  /** The caller of an org that holds most of it; undefined: none holds anything. Walks all of its callers. */
  largestCaller(org: string): string | undefined {
    let largest: string | undefined;
    let most = 0;
    for (const [caller, count] of this.#orgs.get(org)?.callers ?? []) {
      if (count <= most) continue;
      largest = caller;
      most = count;
    }
    return largest;
  }
}
