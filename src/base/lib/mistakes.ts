import { type ErrorDetail, MAX_DETAILS } from './gateway-error.ts';

const MORE = 'more_mistakes';
const COUNT = /^and (\d+) more$/;

/** The first mistakes of something, and how many more there are: a text can be wrong in a hundred thousand places. */
export class Mistakes {
  readonly #first: ErrorDetail[] = [];
  #more = 0;

  get found(): boolean {
    return this.#first.length > 0;
  }

  /** From now on mistakes are only counted. */
  get full(): boolean {
    return this.#first.length >= MAX_DETAILS;
  }

  add(mistake: ErrorDetail): void {
    if (this.full) this.count();
    else this.#first.push(mistake);
  }

  /** Counts one that nobody is told. */
  count(): void {
    this.#more++;
  }

  /** Takes over what another reader found. */
  addAll(mistakes: readonly ErrorDetail[]): void {
    for (const mistake of mistakes) {
      const counted = mistake.code === MORE ? COUNT.exec(mistake.message)?.[1] : undefined;
      if (counted === undefined) this.add(mistake);
      else this.#more += Number(counted);
    }
  }

  /** The first ones in their order, and behind them the number of the others. */
  all(inOrder: (mistakes: readonly ErrorDetail[]) => readonly ErrorDetail[] = (mistakes) => mistakes): readonly ErrorDetail[] {
    const first = inOrder(this.#first);
    return this.#more === 0 ? first : [...first, { path: '', message: `and ${this.#more} more`, code: MORE }];
  }
}

/** Whether this stands for mistakes that are not told, and how many. */
export function untold({ code, message }: ErrorDetail): number {
  return code === MORE ? Number(COUNT.exec(message)?.[1] ?? 0) : 0;
}
