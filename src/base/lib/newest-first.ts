const DIGITS = '0123456789abcdef';

/**
 * The key under which an id that sorts by time (UUID version 7) stands so that keys in order are the newest first; the same again makes the id of such a key. Stores list in
 * ascending order alone.
 */
export function newestFirst(id: string): string {
  let key = '';
  for (const char of id) {
    const digit = DIGITS.indexOf(char);
    key += digit === -1 ? char : DIGITS[15 - digit];
  }
  return key;
}
