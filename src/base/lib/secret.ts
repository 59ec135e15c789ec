import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Compares two secrets in a time that tells nothing about where they differ. Both are hashed first, so that different lengths take the same way.
 */
export function sameSecret(presented: string, expected: string): boolean {
  return timingSafeEqual(digest(presented), digest(expected));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
