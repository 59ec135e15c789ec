import { Lru } from '../../base/lib/lru.ts';

/**
 * One counter key with its named totals. While it is pinned there is exactly one of it, so that no addition is lost.
 */
export interface CounterCell {
  readonly key: string;
  readonly totals: Map<string, bigint>;
  pins: number;
}

const IDLE_CELLS = 20_000;
const SEPARATOR = '\0';

/**
 * Counters that are in use (by a commit under way or by totals that the index does not have yet) stay in memory; of the
 * others the 20,000 used last. Anything else is read from the index when it is asked for, so that a space may be as
 * large as the disk.
 */
export class Counters {
  readonly #load: (key: string) => string | undefined;
  readonly #pinned = new Map<string, CounterCell>();
  readonly #idle: Lru<string, CounterCell>;

  constructor(load: (key: string) => string | undefined, idleCells: number = IDLE_CELLS) {
    this.#load = load;
    this.#idle = new Lru({ max: idleCells });
  }

  /** Fetches a counter and holds it until {@link unpin}. Throws what reading the index throws. */
  pin(key: string): CounterCell {
    let cell = this.#pinned.get(key);
    if (cell === undefined) {
      cell = this.#idle.get(key) ?? { key, totals: decodeTotals(this.#load(key)), pins: 0 };
      this.#idle.delete(key);
      this.#pinned.set(key, cell);
    }
    cell.pins += 1;
    return cell;
  }

  unpin(cell: CounterCell): void {
    cell.pins -= 1;
    if (cell.pins > 0) return;
    this.#pinned.delete(cell.key);
    this.#idle.set(cell.key, cell);
  }

  /** The totals now; empty for a counter that nothing was added to. */
  totals(key: string): ReadonlyMap<string, bigint> {
    const held = this.#pinned.get(key) ?? this.#idle.get(key);
    if (held) return held.totals;
    const cell = { key, totals: decodeTotals(this.#load(key)), pins: 0 };
    if (cell.totals.size > 0) this.#idle.set(key, cell);
    return cell.totals;
  }
}

export function encodeTotals(totals: ReadonlyMap<string, bigint>): string {
  let text = '';
  for (const [name, amount] of totals) text += text === '' ? `${name}\0${amount}` : `\0${name}\0${amount}`;
  return text;
}

export function decodeTotals(text: string | undefined): Map<string, bigint> {
  const totals = new Map<string, bigint>();
  if (text === undefined || text === '') return totals;
  const fields = text.split(SEPARATOR);
  for (let at = 0; at + 1 < fields.length; at += 2) totals.set(fields[at] ?? '', BigInt(fields[at + 1] ?? '0'));
  return totals;
}

export function addTo(cell: CounterCell, amounts: readonly (readonly [name: string, amount: bigint])[]): void {
  for (const [name, amount] of amounts) cell.totals.set(name, (cell.totals.get(name) ?? 0n) + amount);
}
