/**
 * A well-formed text in memory of its own. A piece of another text (a `slice`, a match) keeps the whole of that in memory for as long as it lives, so that a name
 * of twenty characters can hold the 64 KiB of the head that it came with: for what is kept beyond its request.
 */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}
