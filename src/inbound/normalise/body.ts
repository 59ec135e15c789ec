import type { Operation } from '../../base/catalogue/types.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJson, parseSafeJsonText, sizeInMemory } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { holdsOwnToken } from '../../base/lib/own-tokens.ts';
import { byteOrderMark, shorten } from '../../base/lib/text.ts';
import { MAX_TEXT, OWN_TOKEN_RULE, TEXT_RULE } from './envelope-rules.ts';
import { emptyMap } from './envelope-shape.ts';
import { ambiguous, type Form, type FormField, fieldText, parseMediaType, parseUrlencoded } from './form.ts';
import { parseMultipart } from './multipart.ts';
import { fillPlaces, type GovernedNames, governedNames, refuseLookalikes } from './places.ts';
import { refuseSpellings } from './spellings.ts';

const CONTENT_TYPE = 'content-type';
const OPEN_BRACE = 0x7b;
const AMPERSAND = 0x26;
/** Longest text field of a form that becomes a param (decision 3.19). */
const MAX_FIELD_TEXT = 65_536;
/** Of a field of a form beside its text. */
const BYTES_OF_FIELD = 200;
const UTF8_CHARSETS: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);
/** Charsets in which ASCII is ASCII: both sides read the same as long as the body is ASCII. */
const ASCII_SUPERSETS: ReadonlySet<string> = new Set(['iso-8859-1', 'latin1', 'windows-1252']);

/** The body of an `ai.*` call as policy sees it. */
export interface AiBody {
  /** `empty`: there is no body, which counts as `{}`. */
  readonly kind: 'json' | 'form' | 'empty';
  /**
   * What was read: as received, or decoded when it came compressed. Of JSON without the byte order mark that it came
   * with.
   */
  readonly bytes: Uint8Array;
  /** JSON text of `bytes`. */
  readonly text: string;
  /** What text and params take in memory, bytes, rounded up. */
  readonly size: number;
  /**
   * `action.params`: the parsed body, or the text fields of a form, with `model` and `stream` filled in. Own properties
   * only. Of an operation that is not known there are none but the model that its path names: what its body says may
   * mean something else, or nothing.
   */
  readonly params: Readonly<Record<string, unknown>>;
  readonly model: string | undefined;
  readonly stream: boolean;
  readonly form: Form | undefined;
  /** The bytes are the beginning of a form that still arrives: up to the start of a file. */
  readonly partial: boolean;
  /** How it was read, so that a mutated body is read the same way. */
  readonly operation: Operation;
}

export interface AiBodyInput {
  readonly operation: Operation;
  readonly contentType: string | undefined;
  /** Decoded, when the body came compressed. */
  readonly bytes: Uint8Array;
  /** What `bytes` were written from, when that is JSON text of our own. */
  readonly text?: string;
  /** Canonical path with query. */
  readonly path: string;
  /** The form that `bytes` were found to be while they arrived. */
  readonly form?: Form;
  /** `bytes` are only the beginning of a multipart form. */
  readonly partial?: boolean;
}

/**
 * Reads the body of an `ai.*` operation so that policy sees what the provider will see (decisions 3.19, 3.20). It is
 * parsed by its dialect whatever the Content-Type says; only an operation that takes forms, or one that no registry row
 * knows, lets the Content-Type choose between form and JSON.
 * @throws GatewayError `body_too_deep`, `ambiguous_body`, `invalid_request` for a model name beyond the limit of texts
 * (decision 4.7)
 */
export function readAiBody(input: AiBodyInput): AiBody {
  const { bytes, operation } = input;
  if (bytes.length === 0) return finish(input, 'empty', '{}', {}, undefined, 0);
  const form = readForm(input);
  const governed = governedNames(operation.dialect);
  if (form !== undefined) {
    const params = operation.known ? formParams(form, bytes, governed) : {};
    return finish(input, 'form', '', params, form, sizeOfTexts(params));
  }
  const json = input.text === undefined ? parseSafeJson(bytes) : parseSafeJsonText(input.text);
  const { value, text, doubt } = json;
  if (doubt !== undefined)
    throw new GatewayError('ambiguous_body', doubt.message, { details: [{ path: doubt.path, message: doubt.message }] });
  if (!isJsonObject(value)) throw ambiguous('The body is not a JSON object.');
  const read = bytes[0] === OPEN_BRACE ? input : { ...input, bytes: bytes.subarray(byteOrderMark(bytes)) };
  const { length } = read.bytes;
  refuseForeignCharset(input.contentType, text.length === length);
  if (!operation.known) return finish(read, 'json', text, {}, undefined, sizeInMemory(json, length));
  refuseLookalikes(Object.keys(value), governed);
  refuseSpellings(value, text, operation.dialect);
  return finish(read, 'json', text, value, undefined, sizeInMemory(json, length));
}

function finish(
  input: AiBodyInput,
  kind: AiBody['kind'],
  text: string,
  params: Record<string, unknown>,
  form: Form | undefined,
  size: number,
): AiBody {
  const placed = fillPlaces(params, input.path, input.operation);
  refuseModel(placed.model);
  const { bytes, operation, partial = false } = input;
  return { kind, bytes, text, size, params, model: placed.model, stream: placed.stream, form, partial, operation };
}

/** It is kept in the record, where no prompt may hide, and no key of the gateway. */
function refuseModel(model: string | undefined): void {
  if (model === undefined || (model.length <= MAX_TEXT && !holdsOwnToken(model))) return;
  const message = model.length > MAX_TEXT ? TEXT_RULE : OWN_TOKEN_RULE;
  throw new GatewayError('invalid_request', `The name of the model ${message}.`, { details: [{ path: 'action.params.model', message }] });
}

/**
 * True when the body of this operation is to be read as a multipart form.
 * @throws GatewayError `ambiguous_body` for a multipart message of another kind
 */
export function isMultipart(operation: Operation, contentType: string | undefined): boolean {
  if (contentType === undefined || (!operation.multipart && operation.known)) return false;
  if (!contentType.slice(0, 40).toLowerCase().includes('multipart/')) return false;
  if (parseMediaType(contentType).type === 'multipart/form-data') return true;
  throw ambiguous('The body is a multipart message of another kind than form-data.');
}

/**
 * Of two Content-Type fields servers take the first, the last or both.
 * @param rawHeaders flat name, value list
 * @throws GatewayError `ambiguous_body`
 */
export function refuseSeveralTypes(rawHeaders: readonly string[]): void {
  let found = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE) found++;
  }
  if (found > 1) throw ambiguous('The request has more than one Content-Type field.');
}

/**
 * The boundary that a multipart Content-Type names. Some parsers read names and values of the parts in the charset that
 * it declares.
 * @throws GatewayError `ambiguous_body` for a malformed one, and for another charset than UTF-8
 */
export function boundaryOf(contentType: string | undefined): string | undefined {
  refuseForeignCharset(contentType, false);
  return parseMediaType(contentType ?? '').parameters.get('boundary');
}

function readForm({ operation, contentType, bytes, form, partial }: AiBodyInput): Form | undefined {
  if (form !== undefined) return form;
  if (isMultipart(operation, contentType)) return parseMultipart(bytes, boundaryOf(contentType), partial);
  // A JSON text would also pass for a form with one odd name.
  const urlencoded = operation.multipart && contentType?.slice(0, 40).toLowerCase().includes('x-www-form-urlencoded');
  if (!urlencoded) return undefined;
  if (bytes[byteOrderMark(bytes)] === OPEN_BRACE) {
    if (bytes.includes(AMPERSAND)) throw ambiguous('The body is JSON and declares to be a form, which it could be as well.');
    return undefined;
  }
  refuseForeignCharset(contentType, false);
  return parseUrlencoded(bytes);
}

/**
 * Text fields become params; a name that ends in `[]` collects its values. Duplicates and look-alikes are refused as in
 * JSON, and so is a governed field that is a file or too long to look into.
 */
function formParams(form: Form, bytes: Uint8Array, governed: GovernedNames): Record<string, unknown> {
  const params: Record<string, unknown> = emptyMap();
  const files = new Set<string>();
  for (const field of form.fields) {
    const { name } = field;
    refuseOddField(field, governed);
    const isText = !field.file && field.end - field.start <= MAX_FIELD_TEXT;
    const isList = name.endsWith('[]');
    if (!isList && (Object.hasOwn(params, name) || (isText && files.has(name))))
      throw ambiguous(`The form has the field "${shorten(name)}" twice.`);
    if (!isText) files.add(name);
    else if (isList) addTo(params, name, fieldText(form, bytes, field));
    else params[name] = fieldText(form, bytes, field);
  }
  refuseLookalikes([...Object.keys(params), ...files], governed);
  return params;
}

function addTo(params: Record<string, unknown>, name: string, text: string): void {
  const list = params[name];
  if (Array.isArray(list)) list.push(text);
  else params[name] = [text];
}

/** Two bytes for each character, and a field of a form for each text. */
function sizeOfTexts(params: Readonly<Record<string, unknown>>): number {
  let size = 0;
  for (const [name, value] of Object.entries(params)) {
    for (const text of Array.isArray(value) ? value : [value]) size += 2 * (name.length + String(text).length) + BYTES_OF_FIELD;
  }
  return size;
}

/**
 * Looks at a part that comes after the call was decided: a file may follow, a text would be a param that policy has not
 * seen (decision 3.19).
 * @param params of the form as it was decided, mutations applied
 * @throws GatewayError `ambiguous_body`
 */
export function refuseLatePart(part: FormField, params: Readonly<Record<string, unknown>>, { dialect }: Operation): void {
  const governed = governedNames(dialect);
  if (!part.file) {
    throw ambiguous(`The form field "${shorten(part.name)}" comes after a file that is too large to be held; put it before the files.`);
  }
  refuseOddField(part, governed);
  if (Object.hasOwn(params, part.name)) throw ambiguous(`The form has the field "${shorten(part.name)}" twice.`);
  refuseLookalikes([part.name], governed, (name) => Object.hasOwn(params, name));
}

/** A governed field must be one text; `_charset_` would make the others mean something else. */
function refuseOddField(field: FormField, governed: GovernedNames): void {
  const base = field.name.replace(/\[.*$/s, '');
  if (field.name === '_charset_') throw ambiguous('The form changes its character set.');
  if (!governed.exact.has(base)) return;
  if (base !== field.name) throw ambiguous(`The form field "${base}" is written as a list.`);
  if (field.file || field.end - field.start > MAX_FIELD_TEXT) {
    throw ambiguous(`The form field "${base}" is a file or longer than ${MAX_FIELD_TEXT} bytes.`);
  }
}

/** A body that declares a charset in which its bytes mean something else could carry names that policy does not see. */
function refuseForeignCharset(contentType: string | undefined, ascii: boolean): void {
  if (contentType === undefined || !/charset/i.test(contentType)) return;
  const charset = parseMediaType(contentType).parameters.get('charset')?.toLowerCase();
  if (charset === undefined || UTF8_CHARSETS.has(charset) || (ascii && ASCII_SUPERSETS.has(charset))) return;
  throw ambiguous(`The body declares the charset ${shorten(charset)} and not UTF-8.`);
}
