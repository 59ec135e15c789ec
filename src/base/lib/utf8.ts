/** Where bytes stop to be UTF-8. */
export interface Utf8Fault {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** The text with U+FFFD in the place of what is none, to show the line. */
  readonly text: string;
}

/** What a person is told of a file that is no text. */
export const NOT_UTF8 = { message: 'the file is not UTF-8 text', hint: 'save it as UTF-8' } as const;

const MARK_BYTES = 3;

/** How many bytes the byte order mark takes with which a text in UTF-8 begins: 3, or 0 where there is none. */
export function byteOrderMark(bytes: Uint8Array): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? MARK_BYTES : 0;
}

/** The text of bytes, without a byte order mark, or where they are none. */
export function decodeUtf8(bytes: Uint8Array): string | Utf8Fault {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return faultOf(bytes);
    throw error;
  }
}

function faultOf(bytes: Uint8Array): Utf8Fault {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const written = new TextEncoder().encode(text);
  const differs = bytes.findIndex((byte, i) => byte !== written[i]);
  const sound = bytes.subarray(0, differs === -1 ? bytes.length : differs);
  const before = new TextDecoder('utf-8', { ignoreBOM: true }).decode(sound).replace(/\ufffd$/, '');
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n'), text };
}

/** A text as it would be read from a file: a byte order mark is no part of it. */
export function withoutByteOrderMark(text: string): string {
  return text.replace(/^\ufeff/, '');
}
