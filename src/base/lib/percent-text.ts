/** What a text with percent-escapes spells. @returns undefined where an escape is malformed or no UTF-8 */
export function percentDecoded(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
