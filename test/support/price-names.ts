import type { MatchRule } from '../../src/base/catalogue/price-list/list-shape.ts';

/**
 * Names that a rule of matching may fit: what it spells out, and members made of the rest. Some of them do not fit; a
 * test tries them.
 */
export function namesOf(rule: MatchRule): readonly string[] {
  if ('or' in rule) return rule.or.flatMap(namesOf);
  if ('and' in rule) return rule.and.flatMap(namesOf).flatMap((name) => [name, `${name}-tts`]);
  if ('equals' in rule) return [rule.equals];
  if ('starts_with' in rule) return [rule.starts_with, `${rule.starts_with}-20250103`, `${rule.starts_with}zz`];
  if ('ends_with' in rule) return [rule.ends_with, `zz.${rule.ends_with}`];
  if ('contains' in rule) return [rule.contains, `zz/${rule.contains}-zz`, `${rule.contains}@20250103`];
  return madeFrom(rule.regex);
}

/** Of the few constructs that patterns of the list have. */
function madeFrom(pattern: string): readonly string[] {
  const plain = pattern
    .replace(/^\^/, '')
    .replace(/\$$/, '')
    .replaceAll('\\d{4}-\\d{2}-\\d{2}', '2025-01-03')
    .replaceAll('\\d{8}', '20250103')
    .replaceAll('\\d', '7')
    .replace('[134]', '3')
    .replaceAll(/\\(.)/g, '$1');
  return plain.includes('(') ? ['mistral-zz', 'labs-devstral-zz', 'x/mistral-zz', 'open-mixtral-zz'] : [plain, `${plain}zz`];
}
