const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

/** A longer name is none that anybody looks for. */
const MAX_NAME = 64;

/**
 * Which of a few names the object has that a JSON text in UTF-8 is, while its bytes pass in pieces of any size. Names
 * of its first level alone: no value is looked at, and nothing of the text is kept but the name that is being read.
 * Malformed text yields nothing or too little, never an exception.
 */
export class MemberNames {
  readonly #bits: ReadonlyMap<string, number>;
  #seen = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #expectsName = false;
  #readsName = false;
  #name = '';
  #done = false;

  /** @param bits by name, one bit for each: at most 31 */
  constructor(bits: ReadonlyMap<string, number>) {
    this.#bits = bits;
  }

  /** Bits of the names so far. */
  get seen(): number {
    return this.#seen;
  }

  /** True when nothing more can come: the object has ended, or the text is none. */
  get done(): boolean {
    return this.#done;
  }

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && !this.#done; at++) {
      const byte = bytes[at] ?? 0;
      if (this.#inString) this.#character(byte);
      else this.#structure(byte);
    }
  }

  #character(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) {
      this.#inString = false;
      if (this.#readsName) this.#seen |= this.#bits.get(this.#name) ?? 0;
      return;
    }
    if (this.#readsName && this.#name.length < MAX_NAME) this.#name += String.fromCharCode(byte);
  }

  #structure(byte: number): void {
    switch (byte) {
      case QUOTE:
        this.#inString = true;
        this.#readsName = this.#expectsName && this.#depth === 1;
        this.#name = '';
        if (this.#depth === 0) this.#done = true;
        return;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        this.#depth += 1;
        if (this.#depth === 1) {
          this.#expectsName = true;
          this.#done = byte === OPEN_BRACKET;
        }
        return;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        this.#depth -= 1;
        this.#done = this.#depth <= 0;
        return;
      case COMMA:
      case COLON:
        if (this.#depth === 1) this.#expectsName = byte === COMMA;
        return;
      default:
        if (this.#depth === 0 && byte > SPACE) this.#done = true;
    }
  }
}
