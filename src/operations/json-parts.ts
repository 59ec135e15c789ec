/** Members that are turned to text in one go: while they are, every other call waits. */
const PART_MEMBERS = 500;

/** Items in groups of a size that may be turned to text in one go. */
export function* inParts<T>(items: Iterable<T>): Generator<readonly T[], void> {
  let part: T[] = [];
  for (const item of items) {
    part.push(item);
    if (part.length < PART_MEMBERS) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}

/**
 * The JSON text, in parts, of an object whose last member may be long.
 * @param head the members before it, at least one
 * @param brackets what the last member is: an array of the given texts, or an object of them
 * @param groups texts of its elements (or of its members, names included)
 */
export async function* jsonParts(
  head: object,
  name: string,
  brackets: '[]' | '{}',
  groups: AsyncIterable<readonly string[]> | Iterable<readonly string[]>,
): AsyncGenerator<string, void> {
  let before = `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:${brackets.charAt(0)}`;
  for await (const group of groups) {
    if (group.length === 0) continue;
    yield before + group.join(',');
    before = ',';
  }
  yield `${before === ',' ? '' : before}${brackets.charAt(1)}}`;
}
