/** A string of many small pieces costs thirty times what it says, and each piece may keep the whole chunk that it was cut from. */
const MAX_PIECES = 64;

/** Text that comes in pieces of any size, in memory of its own length. Characters are bytes (Latin-1). */
export class TextPieces {
  #whole = '';
  /** The last pieces, not copied yet. */
  #tail = '';
  #pieces = 0;

  get length(): number {
    return this.#whole.length + this.#tail.length;
  }

  get text(): string {
    return this.#whole + this.#tail;
  }

  push(piece: string): void {
    this.#tail += piece;
    if (++this.#pieces < MAX_PIECES) return;
    this.#whole += Buffer.from(this.#tail, 'latin1').toString('latin1');
    this.#tail = '';
    this.#pieces = 0;
  }

  /** The text; it is empty afterwards. */
  take(): string {
    const text = this.#whole + this.#tail;
    this.#whole = '';
    this.#tail = '';
    this.#pieces = 0;
    return text;
  }
}
