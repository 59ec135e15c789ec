/** User name and password of HTTP Basic; both may be empty. */
export interface BasicCredentials {
  readonly user: string;
  readonly password: string;
}

/** Longest base64 text that is looked at. */
const MAX_ENCODED = 8192;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads the value of `Proxy-Authorization` or `Authorization` (RFC 7617). The password may hold colons, the user name
 * may not; bytes that are not UTF-8 are read as Latin-1.
 * @returns undefined when the field is absent, of another scheme, or not base64 with a colon inside
 */
export function parseBasic(value: string | undefined): BasicCredentials | undefined {
  const encoded = value === undefined ? undefined : /^basic +([A-Za-z0-9+/_-]+={0,2})$/i.exec(value.trim())?.[1];
  if (encoded === undefined || encoded.length > MAX_ENCODED) return undefined;
  const text = textOf(Buffer.from(encoded, 'base64'));
  const colon = text.indexOf(':');
  return colon === -1 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    return bytes.toString('latin1');
  }
}

const STANDARD = /^[A-Za-z0-9+/]*={0,2}$/;
const URL_SAFE = /^[A-Za-z0-9_-]*={0,2}$/;

/**
 * Bytes of base64, standard or URL-safe but not both in one text, padding optional. One value has one spelling in each:
 * bits beyond the last byte are zero, and padding that is there is whole.
 * @returns undefined for any other text
 */
export function bytesOfBase64(text: string): Buffer | undefined {
  if (!STANDARD.test(text) && !URL_SAFE.test(text)) return undefined;
  const bare = text.replace(/=+$/, '');
  if (bare.length !== text.length && text.length % 4 !== 0) return undefined;
  const bytes = Buffer.from(bare, 'base64');
  const again = bytes.toString('base64url');
  return again === bare.replaceAll('+', '-').replaceAll('/', '_') ? bytes : undefined;
}
