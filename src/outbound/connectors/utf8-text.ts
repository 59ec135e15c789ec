const NOT_ASCII = /[\u0080-\u00ff]/;

/** What a text says whose characters are bytes of UTF-8, as this room reads them. */
export function utf8Text(text: string): string {
  return NOT_ASCII.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text;
}
