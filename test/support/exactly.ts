/**
 * For `t.match`, which takes a text for found wherever it stands in the other: `'0'` is in `'0.015'`. An amount is
 * right to the last digit or wrong.
 * @param text the whole value
 */
export function exactly(text: string): RegExp {
  return new RegExp(`^${text.replaceAll(/[.\\^$*+?()[\]{}|]/g, '\\$&')}$`);
}
