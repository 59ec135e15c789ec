/** The smaller of two indexes, where -1 is none. */
export function firstOf(a: number, b: number): number {
  return b === -1 || (a !== -1 && a < b) ? a : b;
}

/** Where each line that ends in this text ends, and where the next one begins (LF, CR, CRLF in any mix). Each kind of end is searched for again only when it was passed. */
export function* lineEnds(text: string, from: number): Generator<{ readonly end: number; readonly next: number }> {
  let lf = text.indexOf('\n', from);
  let cr = text.indexOf('\r', from);
  while (lf !== -1 || cr !== -1) {
    const end = firstOf(lf, cr);
    const next = end === cr && lf === end + 1 ? end + 2 : end + 1;
    yield { end, next };
    if (cr !== -1 && cr < next) cr = text.indexOf('\r', next);
    if (lf !== -1 && lf < next) lf = text.indexOf('\n', next);
  }
}
