const NOT_ASCII = /[\u0080-\u00ff]/;

/** What a text says whose characters are bytes of UTF-8, as this room reads them. */
export function utf8Text(text: string): string {
  return NOT_ASCII.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text;
}

/** The same for a value that was parsed from such a text. */
export function utf8Value(value: unknown): unknown {
  if (typeof value === 'string') return utf8Text(value);
  return typeof value === 'object' && value !== null ? (JSON.parse(utf8Text(JSON.stringify(value))) as unknown) : value;
}
