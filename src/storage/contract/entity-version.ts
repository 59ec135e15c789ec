import { sha256Hex } from '../../base/lib/sha256.ts';

/** Bits enough that no two values are ever taken for one another. */
const HEX_DIGITS = 32;

/**
 * The version of an entity: a digest of its value's text, so that it costs nothing until somebody asks, is the same
 * after every start, and needs no place in the journal. An entity that had this value before has this version again;
 * what expects it is as true as it was then.
 */
export function versionOf(text: string): string {
  return sha256Hex(text).slice(0, HEX_DIGITS);
}
