import { GatewayError } from '../lib/gateway-error.ts';
import { isWellFormed } from '../lib/text.ts';
import { endOfString } from './json-members.ts';
import { parseSafeJson, parseSafeJsonText } from './safe-json.ts';

/** Two readers of the text could see different values, or it is no JSON at all: one line for a person. */
export class AmbiguousJsonError extends Error {}

const QUOTE = 0x22;
const COLON = 0x3a;

/**
 * The one value that JSON has for every reader: no name stands twice in any object, no integer is beyond 2^53, no
 * number is infinite, no text has half a pair of surrogates, and the nesting is no deeper than that of request bodies
 * (decisions 3.19, 3.20, 7.1).
 * @throws AmbiguousJsonError
 */
export function unambiguousJson(input: Uint8Array | string): unknown {
  const { value, text, doubt } = parsed(input);
  if (doubt !== undefined) throw new AmbiguousJsonError(`it can be read in two ways: ${doubt.message}`);
  // A reader sees one of two equal names, a hash covers the other.
  if (colonsOutsideStrings(text) !== countNames(value))
    throw new AmbiguousJsonError('it can be read in two ways: a name stands twice in one object');
  if (!isWhole(value)) throw new AmbiguousJsonError('it can be read in two ways: a text has half a pair of surrogates');
  return value;
}

/** Whether a JSON text has one value for every reader, as {@link unambiguousJson} has it. */
export function isUnambiguousJson(text: string): boolean {
  try {
    unambiguousJson(text);
    return true;
  } catch (error) {
    if (error instanceof AmbiguousJsonError) return false;
    throw error;
  }
}

function parsed(input: Uint8Array | string): ReturnType<typeof parseSafeJson> {
  const options = { malformed: 'invalid_request', exactIntegers: true } as const;
  try {
    return typeof input === 'string' ? parseSafeJsonText(input, options) : parseSafeJson(input, options);
  } catch (error) {
    if (error instanceof GatewayError) throw new AmbiguousJsonError(`it cannot be read: ${error.message}`, { cause: error });
    throw error;
  }
}

function colonsOutsideStrings(text: string): number {
  let colons = 0;
  for (let at = 0; at < text.length; ) {
    const sign = text.charCodeAt(at);
    if (sign === COLON) colons++;
    at = sign === QUOTE ? endOfString(text, at) : at + 1;
  }
  return colons;
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const members: unknown[] = Object.values(value);
  return members.reduce<number>((sum, member) => sum + countNames(member), Array.isArray(value) ? 0 : members.length);
}

function isWhole(value: unknown): boolean {
  if (typeof value === 'string') return isWellFormed(value);
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, member]) => isWellFormed(name) && isWhole(member));
}
