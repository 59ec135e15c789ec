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

/**
 * The known name that a person most probably meant: smallest edit distance (insert, delete, replace, swap of
 * neighbours; case ignored), at most a third of the word's length; else the only one that begins with the word, or that
 * the word begins with (`project` and `project_id`, `monday` and `mon`). Undefined when nothing is near.
 */
export function nearestName(word: string, known: Iterable<string>): string | undefined {
  const names = [...known];
  const asked = word.toLowerCase().slice(0, 64);
  const limit = Math.max(1, Math.floor(asked.length / 3));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const name of names) {
    if (Math.abs(name.length - asked.length) >= bestDistance) continue;
    const distance = editDistance(asked, name.toLowerCase());
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best ?? onlyBeginning(asked, names);
}

const SHORTEST_BEGINNING = 3;

function onlyBeginning(asked: string, names: readonly string[]): string | undefined {
  const found = names.filter((name) => {
    const lower = name.toLowerCase();
    return Math.min(asked.length, lower.length) >= SHORTEST_BEGINNING && (lower.startsWith(asked) || asked.startsWith(lower));
  });
  return found.length === 1 ? found[0] : undefined;
}

/** Optimal string alignment distance, three rows. */
function editDistance(a: string, b: string): number {
  let older: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let value = Math.min((previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (previous[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) value = Math.min(value, (older[j - 2] ?? 0) + 1);
      row.push(value);
    }
    older = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}
