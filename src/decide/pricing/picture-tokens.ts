import type { PictureRule } from '../../base/catalogue/call-places.ts';
import { memberOf, wholeNumber } from '../../base/catalogue/holders.ts';
import type { JsonObject } from '../../base/json/json-object.ts';

const SIZE = /^(\d{1,5})x(\d{1,5})$/;
/** No provider makes one of more. */
const MOST = 1_000_000_000;

/** Tokens of a picture that is asked for so, with those of the unfinished ones that come before it. */
export function pictureTokens(asked: JsonObject, { tokens, byQuality, pixels, partial, frames }: PictureRule): number {
  const quality = memberOf(asked, 'quality');
  const usual = typeof quality === 'string' && Object.hasOwn(byQuality, quality) ? (byQuality[quality] ?? tokens) : tokens;
  let sum = Math.ceil(usual * Math.max(1, sizeOf(memberOf(asked, 'size')) / Math.max(1, pixels)));
  if (partial !== undefined) sum += (wholeNumber(memberOf(asked, partial.member)) ?? 0) * partial.tokens;
  for (const name of frames) sum *= Math.max(1, wholeNumber(memberOf(asked, name)) ?? 1);
  return Math.min(sum, MOST);
}

function sizeOf(size: unknown): number {
  const [, width, height] = (typeof size === 'string' ? SIZE.exec(size) : null) ?? [];
  return Number(width ?? 0) * Number(height ?? 0);
}
