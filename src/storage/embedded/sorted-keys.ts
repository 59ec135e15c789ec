/** So many keys, or an eighth of all, are added before they are brought in among the others. */
const MERGED_AT = 1_024;

/**
 * Keys in the order of their code units. Many are added for one that is asked for in order, so that adding costs next
 * to nothing, and whoever asks for a page does not pay for all keys: what was added since stands apart, and is merged
 * when there is much of it.
 */
export class SortedKeys {
  #main: readonly string[] = [];
  /**
   * What was added since; a key that was not there before is pushed to it. An array, since this stands on the way of
   * every commit.
   */
  added: string[] = [];
  /** So many of them were in order when they were last read. */
  #ordered = 0;

  /**
   * The keys that begin with `prefix` and are larger than `after`, in order. Nothing may be added while they are read.
   */
  *from(prefix: string, after: string): Generator<string, void> {
    this.#order();
    const { added } = this;
    const main = this.#main;
    let [a, b] = [firstBehind(main, prefix, after), firstBehind(added, prefix, after)];
    for (;;) {
      const [one, other] = [main[a], added[b]];
      const isMain = one !== undefined && (other === undefined || one < other);
      const key = isMain ? one : other;
      if (key === undefined || !key.startsWith(prefix)) return;
      if (isMain) a += 1;
      else b += 1;
      yield key;
    }
  }

  #order(): void {
    if (this.added.length > this.#ordered) this.added.sort();
    if (this.added.length > Math.max(MERGED_AT, this.#main.length >> 3)) {
      this.#main = merged(this.#main, this.added);
      this.added = [];
    }
    this.#ordered = this.added.length;
  }
}

function merged(main: readonly string[], added: readonly string[]): readonly string[] {
  const all: string[] = [];
  let next = 0;
  for (const key of added) {
    for (let one = main[next]; one !== undefined && one < key; one = main[++next]) all.push(one);
    all.push(key);
  }
  for (; next < main.length; next += 1) all.push(main[next] ?? '');
  return all;
}

/** The first key that is at least `prefix` and larger than `after`. */
function firstBehind(keys: readonly string[], prefix: string, after: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const key = keys[middle] ?? '';
    if (key >= prefix && key > after) high = middle;
    else low = middle + 1;
  }
  return low;
}
