const STANDARD = /^[A-Za-z0-9+/]*={0,2}$/;
const URL_SAFE = /^[A-Za-z0-9_-]*={0,2}$/;

/**
 * Bytes of base64, standard or URL-safe but not both in one text, padding optional. One value has one spelling in each: bits beyond the last byte are zero,
 * and padding that is there is whole.
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
