import { ambiguous, decode, type Form, type FormField, MAX_FIELDS, parseMediaType, readParameters, refuseOddName } from './form.ts';

const MAX_PART_HEAD = 8192;
const MAX_PART_HEADERS = 16;
const CR = 0x0d;
const LF = 0x0a;
const DASH = 0x2d;
const NOTHING = Buffer.alloc(0);
/** A line end before a delimiter, and one or two dashes after it. */
const LINE_END = 2;

const BOUNDARY = /^[0-9A-Za-z'()+_,./:=?-]{1,70}$/;
const UTF8_CHARSETS: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);
const PLAIN_ENCODINGS: ReadonlySet<string> = new Set(['7bit', '8bit', 'binary']);

/** Parses a `multipart/form-data` body, or (`partial`) the beginning of one. @throws GatewayError `ambiguous_body` */
export function parseMultipart(bytes: Uint8Array, boundary: string | undefined, partial = false): Form {
  const reader = new MultipartReader(boundary);
  reader.push(bytes);
  if (!partial) reader.end();
  return reader.form;
}

interface Part {
  readonly name: string;
  readonly file: boolean;
  readonly start: number;
  end: number;
}

/**
 * Reads `multipart/form-data` (RFC 7578) while it arrives. Strict on purpose, so that no other parser can see another
 * form: no preamble, no epilogue, CRLF only, one plain `Content-Disposition` per part, no transfer encoding, no
 * delimiter that only some parsers would see. Bytes are given out again when it is certain what they are: the head of a
 * part as a whole, the closing delimiter when nothing follows it.
 */
export class MultipartReader {
  readonly #boundary: string;
  readonly #delimiter: Buffer;
  readonly #parts: Part[] = [];
  /**
   * Arrived and not given out. Between parts it begins with the delimiter and, but for the first, the CRLF before it.
   */
  #held: Buffer = NOTHING;
  /** Offset of `#held` in the body. */
  #at = 0;
  #inValue = false;
  #closed = false;
  /** Where the delimiter of the part that was read last begins, its CRLF included. */
  #lastDelimiter = 0;

  /** @throws GatewayError `ambiguous_body` without a usable boundary */
  constructor(boundary: string | undefined) {
    if (boundary === undefined || !BOUNDARY.test(boundary)) throw ambiguous('The form has no usable boundary.');
    this.#boundary = boundary;
    this.#delimiter = Buffer.from(`--${boundary}`, 'latin1');
  }

  /** Parts whose heads were read. */
  get fields(): readonly FormField[] {
    return this.#parts;
  }

  /** The part whose value is arriving. */
  get open(): FormField | undefined {
    return this.#inValue ? this.#parts.at(-1) : undefined;
  }

  /** What is known so far. Another field would go before the part that is arriving. */
  get form(): Form {
    return { kind: 'multipart', fields: this.#parts, boundary: this.#boundary, closing: this.#closed ? this.#at : this.#lastDelimiter };
  }

  /** @returns the bytes that are certain now, none twice. @throws GatewayError `ambiguous_body` */
  push(chunk: Uint8Array): Uint8Array {
    const bytes =
      this.#held.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : Buffer.concat([this.#held, chunk]);
    this.#held = bytes;
    const before = this.#at;
    while (this.#inValue ? this.#readValue() : this.#readPart());
    return bytes.subarray(0, this.#at - before);
  }

  /** The body has ended. @returns its last bytes. @throws GatewayError `ambiguous_body` when the form has not */
  end(): Uint8Array {
    if (!this.#closed) throw ambiguous('The form has no end.');
    return this.#held;
  }

  /** From a delimiter to the end of its part's head. True: there may be more to read. */
  #readPart(): boolean {
    const held = this.#held;
    const first = this.#parts.length === 0;
    const after = this.#delimiter.length + (first ? 0 : LINE_END);
    if (held.length < after + LINE_END) return false;
    if (first && !held.subarray(0, after).equals(this.#delimiter)) throw ambiguous('The form does not begin with its boundary.');
    if (held[after] === DASH && held[after + 1] === DASH) return this.#close(held.subarray(after + LINE_END));
    if (held[after] !== CR || held[after + 1] !== LF)
      throw ambiguous('A boundary of the form is followed by something else than a line end.');
    if (this.#parts.length >= MAX_FIELDS) throw ambiguous(`The form has more than ${MAX_FIELDS} parts.`);
    const start = after + LINE_END;
    const end = held.indexOf('\r\n\r\n', start, 'latin1');
    if ((end === -1 ? held.length - 4 : end) - start > MAX_PART_HEAD) throw ambiguous('A part of the form has a very long header.');
    if (end === -1) return false;
    const head = readPartHead(held.subarray(start, end));
    this.#lastDelimiter = this.#at;
    this.#giveOut(end + 4);
    this.#parts.push({ ...head, start: this.#at, end: Number.POSITIVE_INFINITY });
    this.#inValue = true;
    return true;
  }

  /** Only a CRLF may follow the closing delimiter. */
  #close(epilogue: Buffer): false {
    this.#closed = true;
    if (!'\r\n'.startsWith(epilogue.toString('latin1', 0, 3))) throw ambiguous('Something follows the end of the form.');
    return false;
  }

  /**
   * Up to the CRLF before the next delimiter. Some parsers take the boundary for one wherever it stands, so nowhere
   * else may it be.
   */
  #readValue(): boolean {
    const held = this.#held;
    const at = held.indexOf(this.#delimiter);
    if (at === -1) {
      this.#giveOut(Math.max(0, held.length - LINE_END - this.#delimiter.length + 1));
      return false;
    }
    const end = at - LINE_END;
    if (end < 0 || held[end] !== CR || held[end + 1] !== LF) throw ambiguous('The boundary of the form stands in the middle of a part.');
    this.#giveOut(end);
    const part = this.#parts.at(-1);
    if (part !== undefined) part.end = this.#at;
    this.#inValue = false;
    return true;
  }

  #giveOut(length: number): void {
    this.#held = this.#held.subarray(length);
    this.#at += length;
  }
}

function readPartHead(bytes: Buffer): { name: string; file: boolean } {
  const lines = decode(bytes).split('\r\n');
  if (lines.length > MAX_PART_HEADERS) throw ambiguous('A part of the form has too many header lines.');
  const fields = lines.map(readHeaderLine);
  const dispositions = fields.filter(([name]) => name === 'content-disposition');
  if (dispositions.length > 1) throw ambiguous('A part of the form has two Content-Disposition lines.');
  refuseOddType(fields.filter(([name]) => name === 'content-type').map(([, value]) => value));
  if (fields.some(([name, value]) => name === 'content-transfer-encoding' && !PLAIN_ENCODINGS.has(value.toLowerCase()))) {
    throw ambiguous('A part of the form has a transfer encoding.');
  }
  return readDisposition(dispositions[0]?.[1]);
}

/** Some parsers open a multipart message inside a part, and some read a text in the charset that its part declares. */
function refuseOddType([type, ...more]: readonly string[]): void {
  if (more.length > 0) throw ambiguous('A part of the form has two Content-Type lines.');
  if (type === undefined) return;
  if (/multipart\//i.test(type)) throw ambiguous('A part of the form is a multipart message itself.');
  if (!/charset/i.test(type)) return;
  const charset = parseMediaType(type).parameters.get('charset')?.toLowerCase();
  if (charset !== undefined && !UTF8_CHARSETS.has(charset)) throw ambiguous('A part of the form declares another charset than UTF-8.');
}

function readHeaderLine(line: string): readonly [lowerName: string, value: string] {
  // Blanks before the value belong to it until they are trimmed: two ways to read them would make a head that fails
  // cost the square of its length.
  const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\0]*)$/.exec(line);
  if (match === null) throw ambiguous('A part of the form has a malformed header line.');
  return [(match[1] ?? '').toLowerCase(), (match[2] ?? '').trim()];
}

function readDisposition(disposition: string | undefined): { name: string; file: boolean } {
  const match = /^form-data[ \t]*(;.*)$/is.exec(disposition ?? '');
  const parameters = readParameters(match?.[1] ?? '', 'Content-Disposition', ['filename*']);
  const name = parameters.get('name');
  if (name === undefined || name === '') throw ambiguous('A part of the form has no name.');
  refuseOddName(name);
  // To some parsers a part without a file name is a text, to others a file, or nothing.
  if (parameters.get('filename') === '') throw ambiguous('A part of the form has an empty file name.');
  // Parsers disagree about a quote behind a backslash.
  for (const value of parameters.values()) {
    if (value.endsWith('\\')) throw ambiguous('A parameter of a part of the form ends in a backslash.');
  }
  return { name, file: parameters.has('filename') || parameters.has('filename*') };
}
