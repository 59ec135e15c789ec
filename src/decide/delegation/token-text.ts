import { jsonElements, jsonMembers, skipSpace } from '../../base/json/json-members.ts';
import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { parseSafeJson } from '../../base/json/safe-json.ts';
import { bytesOfBase64 } from '../../base/lib/basic-credentials.ts';
import { byteOrderMark, isWellFormed } from '../../base/lib/text.ts';
import { malformed } from './link.ts';

/** Bytes of a whole token with its parents, decoded. */
export const MAX_TOKEN_BYTES = 16_384;
const MAX_TOKEN_CHARACTERS = Math.ceil(MAX_TOKEN_BYTES / 3) * 4;
const MAX_TOKEN_DEPTH = 16;

/**
 * The JSON object in a token's base64, when it has one reading only: repeated names, lone surrogates and integers
 * beyond 2^53 mean different things to different readers, so nothing that was signed with them is believed.
 * @throws DelegationError `delegation_malformed`
 */
export function objectOfToken(text: string): JsonObject {
  const bytes = text.length > MAX_TOKEN_CHARACTERS ? undefined : bytesOfBase64(text);
  if (bytes === undefined || bytes.length > MAX_TOKEN_BYTES) malformed(`it is not base64 of at most ${MAX_TOKEN_BYTES} bytes`);
  // Text is taken with a byte order mark; of what was signed nothing may be left out.
  if (byteOrderMark(bytes) > 0) malformed('it is not JSON');
  const json = read(bytes);
  if (json.doubt !== undefined) malformed('it can be read in two ways');
  checkReading(json.text, skipSpace(json.text, 0), json.value, 1);
  if (!isJsonObject(json.value)) malformed('it is not a JSON object');
  return json.value;
}

function read(bytes: Uint8Array): ReturnType<typeof parseSafeJson> {
  try {
    return parseSafeJson(bytes, { exactIntegers: true });
  } catch {
    return malformed('it is not JSON');
  }
}

/** Each level is scanned once more than the one around it; there are at most sixteen. */
function checkReading(text: string, start: number, value: unknown, depth: number): void {
  if (typeof value === 'string') {
    if (!isWellFormed(value)) malformed('a text has a lone surrogate');
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (depth > MAX_TOKEN_DEPTH) malformed(`it has more than ${MAX_TOKEN_DEPTH} levels`);
  if (Array.isArray(value)) {
    let i = 0;
    for (const element of jsonElements(text, start)) checkReading(text, element.valueStart, value[i++], depth + 1);
    return;
  }
  const seen = new Set<string>();
  for (const { name, valueStart } of jsonMembers(text, start)) {
    if (name === undefined || !isWellFormed(name)) malformed('a name cannot be read');
    if (seen.has(name)) malformed('a name is there twice');
    seen.add(name);
    checkReading(text, valueStart, (value as JsonObject)[name], depth + 1);
  }
}
