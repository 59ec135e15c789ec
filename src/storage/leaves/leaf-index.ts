const FIRST_SLOTS = 1_024;
/** Above this a table of open addresses gets slow. */
const MOST_FULL = 0.7;

/**
 * Where hashes stand, found by their first eight bytes: 16 to 32 bytes of memory each. Two hashes may begin alike, by
 * chance or because somebody has tried for it, so what is found is a candidate, and who asks compares the whole.
 */
export class LeafIndex {
  #count = 0;
  /** Of each place: the first eight bytes of its hash. */
  #beginnings = new BigUint64Array(FIRST_SLOTS);
  /** Place + 1; 0 is free. */
  #slots = new Uint32Array(FIRST_SLOTS);

  /** Places so far; the next one is this. */
  get count(): number {
    return this.#count;
  }

  add(hash: Uint8Array): void {
    if (this.#count === this.#beginnings.length) this.#beginnings = grown(this.#beginnings);
    if (this.#count + 1 > this.#slots.length * MOST_FULL) this.#enlarge();
    const beginning = beginningOf(hash);
    this.#beginnings[this.#count] = beginning;
    this.#count++;
    this.#put(beginning, this.#count);
  }

  /** Places whose hashes begin like this one. */
  *candidates(hash: Uint8Array): Iterable<number> {
    const beginning = beginningOf(hash);
    for (let slot = this.#slotOf(beginning); ; slot = this.#next(slot)) {
      const entry = this.#slots[slot] ?? 0;
      if (entry === 0) return;
      if (this.#beginnings[entry - 1] === beginning) yield entry - 1;
    }
  }

  #put(beginning: bigint, entry: number): void {
    let slot = this.#slotOf(beginning);
    while (this.#slots[slot] !== 0) slot = this.#next(slot);
    this.#slots[slot] = entry;
  }

  #enlarge(): void {
    this.#slots = new Uint32Array(this.#slots.length * 2);
    for (let place = 0; place < this.#count; place++) this.#put(this.#beginnings[place] ?? 0n, place + 1);
  }

  /** The bytes are those of SHA-256, so that they need no mixing. */
  #slotOf(beginning: bigint): number {
    return Number(beginning & 0xffff_ffffn) & (this.#slots.length - 1);
  }

  #next(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1);
  }
}

function grown(old: BigUint64Array<ArrayBuffer>): BigUint64Array<ArrayBuffer> {
  const larger = new BigUint64Array(old.length * 2);
  larger.set(old);
  return larger;
}

function beginningOf(hash: Uint8Array): bigint {
  return new DataView(hash.buffer, hash.byteOffset, 8).getBigUint64(0);
}
