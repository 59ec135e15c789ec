import { canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { sha256Hex } from '../base/lib/sha256.ts';

/** Hex digits of the hash; enough that no two states of one thing share them. */
const DIGITS = 32;

/**
 * A strong validator of what is shown (RFC 9110 §8.8.3): the same for whoever reads it, on every node. A member `etag`
 * of it is no part of it.
 */
export function etagOf(shown: unknown): string {
  if (isJsonObject(shown) && 'etag' in shown) {
    const { etag: _itself, ...rest } = shown;
    return etagOf(rest);
  }
  return `"${sha256Hex(canonicalJson(shown)).slice(0, DIGITS)}"`;
}

/** An item of a list with its `etag`, where none is read alone. */
export function withEtag<T extends object>(shown: T): T & { readonly etag: string } {
  return { ...shown, etag: etagOf(shown) };
}

/**
 * Judges `If-Match` and `If-None-Match: *` (RFC 9110 §13.1.1, §13.1.2); without them everything fits. What it gives is
 * asked with what is shown, undefined: nothing is there.
 */
export function preconditionOf(headers: Readonly<Record<string, string | undefined>>): (shown: unknown) => void {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match === undefined && noneMatch === undefined) return () => undefined;
  const tags = match?.split(',').map((tag) => tag.trim());
  return (shown) => {
    if (noneMatch?.trim() === '*' && shown !== undefined) throw new GatewayError('precondition_failed', 'It is there already.');
    if (tags === undefined) return;
    if (shown === undefined) throw new GatewayError('precondition_failed', 'It is not there.');
    if (tags.includes('*') || tags.includes(etagOf(shown))) return;
    throw new GatewayError(
      'precondition_failed',
      'Somebody has changed it since you have read it: read it again, then change what is there now.',
    );
  };
}
