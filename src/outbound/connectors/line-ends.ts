/**
 * Goes through the lines that end in a text (LF, CR, CRLF in any mix), each kind of end searched for again only when it was passed. No generator: a stream has
 * thousands of lines.
 */
export class LineEnds {
  /** Where the line ends, and where the next one begins. */
  end = -1;
  next: number;
  readonly #text: string;
  #lf: number;
  #cr: number;

  constructor(text: string, from: number) {
    this.#text = text;
    this.next = from;
    this.#lf = text.indexOf('\n', from);
    this.#cr = text.indexOf('\r', from);
  }

  /** Goes on to the next line. @returns false when none ends in this text any more */
  advance(): boolean {
    if (this.#cr !== -1 && this.#cr < this.next) this.#cr = this.#text.indexOf('\r', this.next);
    if (this.#lf !== -1 && this.#lf < this.next) this.#lf = this.#text.indexOf('\n', this.next);
    const end = firstOf(this.#lf, this.#cr);
    if (end === -1) return false;
    this.end = end;
    this.next = end === this.#cr && this.#lf === end + 1 ? end + 2 : end + 1;
    return true;
  }
}

/** The smaller of two offsets of which -1 says that there is none; -1 when there is neither. */
function firstOf(a: number, b: number): number {
  return b === -1 || (a !== -1 && a < b) ? a : b;
}
