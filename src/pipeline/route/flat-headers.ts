/** A flat name, value list by lower-case name; of a repeated field the last value counts. */
export function byName(flat: readonly string[]): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < flat.length; at += 2) headers[(flat[at] ?? '').toLowerCase()] = flat[at + 1] ?? '';
  return headers;
}
