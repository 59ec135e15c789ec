import { GatewayError } from '../../base/lib/gateway-error.ts';
import { percentDecoded, shorten } from '../../base/lib/text.ts';

/** One field of a form: where its value stands in the bytes. */
export interface FormField {
  readonly name: string;
  /** The part has a file name. */
  readonly file: boolean;
  /** Byte range of the value as it is written; the end of one that still arrives is infinite. */
  readonly start: number;
  readonly end: number;
}

/** A form that was parsed strictly, so that no other parser can see another one. */
export interface Form {
  readonly kind: 'multipart' | 'urlencoded';
  readonly fields: readonly FormField[];
  /** Multipart only. */
  readonly boundary: string;
  /**
   * Where another field would be added: before the closing delimiter of a multipart body (its CRLF included), before
   * the part that still arrives, or at the end of an urlencoded body.
   */
  readonly closing: number;
}

/** Most fields of a form. */
export const MAX_FIELDS = 1000;

const PARAMETER = /^;[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"([^"\r\n]*)"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))[ \t]*/;

const ODD_NAME = /[\\%"'`\u0000-\u001f\u007f]|=\?/;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A form that another parser may read differently. */
export function ambiguous(message: string): GatewayError {
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

/**
 * The parameters of a header field, `;` before each. Other parsers put a parameter together from pieces, or decode it,
 * when a star stands in its name (RFC 2231: `boundary*0=`, `name*=`), and take that instead of the plain one: it is
 * refused, but for names that say so.
 * @param starred names with a star that mean nothing to us
 * @throws GatewayError `ambiguous_body` for a repeated, malformed or starred one
 */
export function readParameters(text: string, field: string, starred: readonly string[] = []): Map<string, string> {
  const parameters = new Map<string, string>();
  let rest = text;
  while (rest !== '' && rest !== ';') {
    const match = PARAMETER.exec(rest);
    if (match === null) throw ambiguous(`${field} has a malformed parameter.`);
    const name = (match[1] ?? '').toLowerCase();
    if (parameters.has(name)) throw ambiguous(`${field} has the parameter ${shorten(name)} twice.`);
    if (name.includes('*') && !starred.includes(name))
      throw ambiguous(`${field} has the parameter ${shorten(name)}, which parsers read differently.`);
    parameters.set(name, match[2] ?? match[3] ?? '');
    rest = rest.slice(match[0].length);
  }
  return parameters;
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
  const name = decodeUrlencoded(bytes.subarray(start, nameEnd));
  refuseOddName(name);
  return { name, file: false, start: Math.min(nameEnd + 1, end), end };
}

/**
 * Refuses a name that parsers read differently: they cut it at a NUL, strip blanks and quotes around it, or decode an
 * escape or an encoded word (RFC 2047, `=?…?=`).
 * @throws GatewayError `ambiguous_body`
 */
export function refuseOddName(name: string): void {
  if (ODD_NAME.test(name) || name.trim() !== name)
    throw ambiguous('The name of a field of the form holds a quote, an escape, a control character or a blank at an end.');
}

/** Text of a field's value. @throws GatewayError `ambiguous_body` when it is not UTF-8 or has a malformed escape */
export function fieldText(form: Form, bytes: Uint8Array, field: FormField): string {
  const value = bytes.subarray(field.start, field.end);
  return form.kind === 'multipart' ? decode(value) : decodeUrlencoded(value);
}

/** @throws GatewayError `ambiguous_body` for bytes that are not UTF-8 */
export function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    // biome-ignore lint/style/useErrorCause: the decoder's error says nothing more
    throw ambiguous('The form holds text that is not UTF-8.');
  }
}

function decodeUrlencoded(bytes: Uint8Array): string {
  const text = percentDecoded(decode(bytes).replaceAll('+', ' '));
  if (text === undefined) throw ambiguous('The form holds a malformed percent-escape.');
  return text;
}

/**
 * The form with the values of some fields replaced, and fields that it does not have added at its end. Every other byte
 * stays.
 */
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
  const atStart = form.closing === 0;
  let first = atStart;
  for (const [name, value] of missing) {
    pieces.push(encodeField(form, name, value, first));
    first = false;
  }
  // The delimiter at the very start has not the CRLF that a part before it needs.
  if (form.kind === 'multipart' && atStart && missing.size > 0) pieces.push(Buffer.from('\r\n', 'latin1'));
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
