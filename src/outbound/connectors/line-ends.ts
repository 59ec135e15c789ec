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
    const lf = this.#lf;
    const cr = this.#cr;
    const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
    if (end === -1) return false;
    this.end = end;
    this.next = end === cr && lf === end + 1 ? end + 2 : end + 1;
    return true;
  }
}
