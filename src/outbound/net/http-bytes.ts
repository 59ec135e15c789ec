// Bytes of HTTP/1.1 (RFC 9110 §5.5, §5.6.2; RFC 9112) and runs of them.
export const HT = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SP = 0x20;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;

const TOKEN = 1;
export const TEXT = 2;
/** RFC 9110 §5.6.2 `tchar`, and the bytes of a field value or reason phrase (§5.5): HTAB, SP, VCHAR, obs-text. */
export const KIND = new Uint8Array(256);
for (let byte = SP; byte < 256; byte++) KIND[byte] = byte === 0x7f ? 0 : TEXT;
KIND[HT] = TEXT;
for (const char of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") KIND[char.charCodeAt(0)] = TOKEN | TEXT;

/** Value of a hexadecimal digit; 255 for any other byte. */
export const HEX = new Uint8Array(256).fill(255);
for (let digit = 0; digit < 16; digit++) {
  HEX[digit.toString(16).charCodeAt(0)] = digit;
  HEX[digit.toString(16).toUpperCase().charCodeAt(0)] = digit;
}

/** Where the run of HTAB, SP, VCHAR and obs-text ends. */
export function endOfText(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && (KIND[bytes[at] ?? 0] ?? 0) >= TEXT) at++;
  return at;
}

/** The texts, as Latin-1, that begin and end at these positions, which ascend: all of them are cut out of one string. */
export function textsAt(bytes: Buffer, positions: readonly number[]): string[] {
  const texts: string[] = [];
  const first = positions[0] ?? 0;
  const text = bytes.toString('latin1', first, positions[positions.length - 1] ?? 0);
  for (let i = 0; i + 1 < positions.length; i += 2) texts.push(text.slice((positions[i] ?? 0) - first, (positions[i + 1] ?? 0) - first));
  return texts;
}
