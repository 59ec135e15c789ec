import { accountOf, requestsRange } from '../../storage/contract/cap-accounts.ts';
import type { CapHolding } from './cap-holding.ts';
import type { NodeCaps } from './node-caps.ts';
import type { CapSource, CapVerdict, CapWindow } from './shared-ledger.ts';

const MONTH = 'month';

/** Requests of orgs' months under limits that nodes share. Each is named by the key of its counter: month and org. */
export class SharedRequests {
  readonly #caps: NodeCaps;
  /** How many this node believes to have been made, those under way included. */
  readonly #counted: (key: string) => number;
  readonly #months = new Map<string, SharedMonth>();

  constructor(caps: NodeCaps, counted: (key: string) => number) {
    this.#caps = caps;
    this.#counted = counted;
  }

  /** Asks for one request more; undefined: this node holds it. */
  askFor(key: string, limit: number): Promise<CapVerdict> | undefined {
    const { holding } = this.#of(key);
    const needs = [{ holding, name: MONTH, start: 0, cap: BigInt(limit) }];
    if (!holding.covers(MONTH, 0, BigInt(limit), 1n)) return this.#caps.ask(needs, 1n);
    this.#caps.use(needs, 1n);
    return undefined;
  }

  /** What others have made, and what they hold. */
  elsewhere(key: string): number {
    const holding = this.#months.get(key)?.holding;
    return holding === undefined ? 0 : Number(holding.elsewhere(MONTH, 0) + holding.others);
  }

  taken(key: string): void {
    this.#of(key).reserved += 1n;
  }

  givenBack(key: string): void {
    this.#of(key).reserved -= 1n;
  }

  /** Its record is stored. */
  stored(key: string): void {
    const month = this.#of(key);
    month.reserved -= 1n;
    month.holding.count(1n);
  }

  #of(key: string): SharedMonth {
    let month = this.#months.get(key);
    if (month === undefined) {
      month = new SharedMonth(key, this.#caps, this.#counted, () => void this.#months.delete(key));
      this.#months.set(key, month);
    }
    return month;
  }
}

class SharedMonth implements CapSource {
  reserved = 0n;
  /** What is counted here is stored. */
  readonly unstored = 0n;
  readonly holding: CapHolding;
  readonly forget: () => void;
  readonly #window: () => CapWindow;

  constructor(key: string, caps: NodeCaps, counted: (key: string) => number, forget: () => void) {
    const range = requestsRange(key);
    this.forget = forget;
    this.#window = () => ({ name: MONTH, start: 0, range, settled: BigInt(counted(key)) - this.reserved, isWatched: false, caps: [] });
    this.holding = caps.of(accountOf(range), () => this);
  }

  windows(): readonly CapWindow[] {
    return [this.#window()];
  }
}
