import { GatewayError } from '../../base/lib/gateway-error.ts';

/** One field of a form: where its value stands in the bytes. */
export interface FormField {
  readonly name: string;
  /** The part has a file name. */
  readonly file: boolean;
  /** Byte range of the value as it is written. */
  readonly start: number;
  readonly end: number;
}

/** A form that was parsed strictly, so that no other parser can see another one. */
export interface Form {
  readonly kind: 'multipart' | 'urlencoded';
  readonly fields: readonly FormField[];
  /** Multipart only. */
  readonly boundary: string;
  /** Byte offset of the closing delimiter of a multipart body (its CRLF included), or the end of an urlencoded one. */
  readonly closing: number;
}

const MAX_FIELDS = 1000;
const MAX_PART_HEAD = 8192;
const MAX_PART_HEADERS = 16;
const CR = 0x0d;
const LF = 0x0a;
const DASH = 0x2d;

const BOUNDARY = /^[0-9A-Za-z'()+_,./:=?-]{1,70}$/;
const PARAMETER = /^;[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"([^"\r\n]*)"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))[ \t]*/;
const PLAIN_ENCODINGS: ReadonlySet<string> = new Set(['7bit', '8bit', 'binary']);

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function ambiguous(message: string): GatewayError {
  return new GatewayError('ambiguous_body', message);
}

export interface MediaType {
  /** Lower case, without parameters. */
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** Reads a Content-Type strictly. @throws GatewayError `ambiguous_body` for a repeated or malformed parameter */
export function parseMediaType(text: string): MediaType {
  const semicolon = text.indexOf(';');
  const type = (semicolon === -1 ? text : text.slice(0, semicolon)).trim().toLowerCase();
  return { type, parameters: semicolon === -1 ? new Map() : readParameters(text.slice(semicolon).trim(), 'Content-Type') };
}

function readParameters(text: string, field: string): Map<string, string> {
  const parameters = new Map<string, string>();
  let rest = text;
  while (rest !== '' && rest !== ';') {
    const match = PARAMETER.exec(rest);
    if (match === null) throw ambiguous(`${field} has a malformed parameter.`);
    const name = (match[1] ?? '').toLowerCase();
    if (parameters.has(name)) throw ambiguous(`${field} has the parameter ${name} twice.`);
    parameters.set(name, match[2] ?? match[3] ?? '');
    rest = rest.slice(match[0].length);
  }
  return parameters;
}

/**
 * Parses `multipart/form-data` (RFC 7578) from memory. Strict on purpose: no preamble, no epilogue, CRLF only, one plain `Content-Disposition` per part, no
 * transfer encoding, no delimiter that only some parsers would see.
 * @throws GatewayError `ambiguous_body`
 */
export function parseMultipart(bytes: Uint8Array, boundary: string | undefined): Form {
  if (boundary === undefined || !BOUNDARY.test(boundary)) throw ambiguous('The form has no usable boundary.');
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = Buffer.from(`--${boundary}`, 'latin1');
  if (body.indexOf(delimiter) !== 0) throw ambiguous('The form does not begin with its boundary.');
  const fields: FormField[] = [];
  let at = delimiter.length;
  while (!isClosing(body, at)) {
    if (body[at] !== CR || body[at + 1] !== LF) throw ambiguous('A boundary of the form is followed by something else than a line end.');
    if (fields.length >= MAX_FIELDS) throw ambiguous(`The form has more than ${MAX_FIELDS} parts.`);
    const head = readPartHead(body, at + 2);
    const end = nextDelimiter(body, delimiter, head.valueStart);
    fields.push({ name: head.name, file: head.file, start: head.valueStart, end });
    at = end + 2 + delimiter.length;
  }
  const epilogue = body.subarray(at + 2);
  if (epilogue.length > 0 && !(epilogue.length === 2 && epilogue[0] === CR && epilogue[1] === LF))
    throw ambiguous('Something follows the end of the form.');
  return { kind: 'multipart', fields, boundary, closing: Math.max(0, at - delimiter.length - 2) };
}

function isClosing(body: Buffer, at: number): boolean {
  return body[at] === DASH && body[at + 1] === DASH;
}

/** Start of the CRLF before the next delimiter. Some parsers take the boundary for one wherever it stands, so nowhere else may it be. */
function nextDelimiter(body: Buffer, delimiter: Buffer, from: number): number {
  const at = body.indexOf(delimiter, from);
  if (at === -1) throw ambiguous('The form has no end.');
  if (at - 2 < from || body[at - 2] !== CR || body[at - 1] !== LF)
    throw ambiguous('The boundary of the form stands in the middle of a part.');
  return at - 2;
}

interface PartHead {
  readonly name: string;
  readonly file: boolean;
  readonly valueStart: number;
}

function readPartHead(body: Buffer, start: number): PartHead {
  const end = body.indexOf('\r\n\r\n', start, 'latin1');
  if (end === -1 || end - start > MAX_PART_HEAD) throw ambiguous('A part of the form has no end of its header, or a very long one.');
  const lines = decode(body.subarray(start, end)).split('\r\n');
  if (lines.length > MAX_PART_HEADERS) throw ambiguous('A part of the form has too many header lines.');
  const fields = lines.map(readHeaderLine);
  const dispositions = fields.filter(([name]) => name === 'content-disposition');
  if (dispositions.length > 1) throw ambiguous('A part of the form has two Content-Disposition lines.');
  if (fields.some(([name, value]) => name === 'content-transfer-encoding' && !PLAIN_ENCODINGS.has(value.toLowerCase()))) {
    throw ambiguous('A part of the form has a transfer encoding.');
  }
  return { ...readDisposition(dispositions[0]?.[1]), valueStart: end + 4 };
}

function readHeaderLine(line: string): readonly [lowerName: string, value: string] {
  const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)$/.exec(line);
  if (match === null) throw ambiguous('A part of the form has a malformed header line.');
  return [(match[1] ?? '').toLowerCase(), (match[2] ?? '').trim()];
}

function readDisposition(disposition: string | undefined): { name: string; file: boolean } {
  const match = /^form-data[ \t]*(;.*)$/is.exec(disposition ?? '');
  const parameters = readParameters(match?.[1] ?? '', 'Content-Disposition');
  const name = parameters.get('name');
  if (name === undefined || name === '') throw ambiguous('A part of the form has no name.');
  // Parsers disagree about escapes in a name, and about a quote behind a backslash.
  if (/[\\%"]/.test(name) || parameters.has('name*')) throw ambiguous('The name of a part of the form holds an escape.');
  for (const value of parameters.values()) {
    if (value.endsWith('\\')) throw ambiguous('A parameter of a part of the form ends in a backslash.');
  }
  return { name, file: parameters.has('filename') || parameters.has('filename*') };
}

/** Parses `application/x-www-form-urlencoded`. @throws GatewayError `ambiguous_body` */
export function parseUrlencoded(bytes: Uint8Array): Form {
  if (bytes.includes(0x3b)) throw ambiguous('The form holds a raw ";", which some parsers take for a separator.');
  const fields: FormField[] = [];
  let start = 0;
  while (start < bytes.length) {
    const ampersand = bytes.indexOf(0x26, start);
    const end = ampersand === -1 ? bytes.length : ampersand;
    if (end > start) fields.push(urlencodedField(bytes, start, end));
    if (fields.length > MAX_FIELDS) throw ambiguous(`The form has more than ${MAX_FIELDS} fields.`);
    start = end + 1;
  }
  return { kind: 'urlencoded', fields, boundary: '', closing: bytes.length };
}

function urlencodedField(bytes: Uint8Array, start: number, end: number): FormField {
  const equals = bytes.subarray(start, end).indexOf(0x3d);
  const nameEnd = equals === -1 ? end : start + equals;
  return { name: decodeUrlencoded(bytes.subarray(start, nameEnd)), file: false, start: Math.min(nameEnd + 1, end), end };
}

/** Text of a field's value. @throws GatewayError `ambiguous_body` when it is not UTF-8 or has a malformed escape */
export function fieldText(form: Form, bytes: Uint8Array, field: FormField): string {
  const value = bytes.subarray(field.start, field.end);
  return form.kind === 'multipart' ? decode(value) : decodeUrlencoded(value);
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    // biome-ignore lint/style/useErrorCause: the decoder's error says nothing more
    throw ambiguous('The form holds text that is not UTF-8.');
  }
}

function decodeUrlencoded(bytes: Uint8Array): string {
  const text = decode(bytes).replaceAll('+', ' ');
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    // biome-ignore lint/style/useErrorCause: the URI error says nothing more
    throw ambiguous('The form holds a malformed percent-escape.');
  }
}

/** The form with the values of some fields replaced, and fields that it does not have added at its end. Every other byte stays. */
export function rewriteForm(form: Form, bytes: Uint8Array, values: ReadonlyMap<string, string>): Uint8Array {
  const pieces: Uint8Array[] = [];
  const missing = new Map(values);
  let kept = 0;
  for (const field of form.fields) {
    const value = values.get(field.name);
    if (value === undefined) continue;
    missing.delete(field.name);
    pieces.push(bytes.subarray(kept, field.start), encodeValue(form, field, bytes, value));
    kept = field.end;
  }
  pieces.push(bytes.subarray(kept, form.closing));
  let first = form.fields.length === 0;
  for (const [name, value] of missing) {
    pieces.push(encodeField(form, name, value, first));
    first = false;
  }
  // An empty form has its closing delimiter at the very start, without the CRLF that a part before it needs.
  if (form.kind === 'multipart' && form.fields.length === 0 && missing.size > 0) pieces.push(Buffer.from('\r\n', 'latin1'));
  pieces.push(bytes.subarray(form.closing));
  return Buffer.concat(pieces);
}

function encodeValue(form: Form, field: FormField, bytes: Uint8Array, value: string): Uint8Array {
  if (form.kind === 'multipart') return multipartValue(form, value);
  // A field without "=" gets one.
  const bare = field.start === field.end && bytes[field.start - 1] !== 0x3d;
  return Buffer.from((bare ? '=' : '') + urlencode(value), 'utf8');
}

function encodeField(form: Form, name: string, value: string, first: boolean): Uint8Array {
  if (form.kind === 'urlencoded') return Buffer.from(`${first ? '' : '&'}${urlencode(name)}=${urlencode(value)}`, 'utf8');
  if (/[\r\n"\\%]/.test(name)) throw ambiguous('A form field cannot have that name.');
  const head = `${first ? '' : '\r\n'}--${form.boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'utf8'), multipartValue(form, value)]);
}

function multipartValue(form: Form, value: string): Uint8Array {
  if (value.includes(`--${form.boundary}`)) throw ambiguous('The new value of a form field holds the boundary.');
  return Buffer.from(value, 'utf8');
}

function urlencode(text: string): string {
  return encodeURIComponent(text).replaceAll('%20', '+');
}
