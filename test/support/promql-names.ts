/**
 * What an expression of PromQL names: its metrics with the labels that select them, and the labels that it groups by.
 */
export interface NamesOfExpression {
  readonly metrics: readonly { readonly name: string; readonly labels: readonly string[] }[];
  readonly grouped: readonly string[];
}

const OPERATORS: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'bool', 'offset', 'inf', 'nan']);

/** No parser: enough for expressions that Prometheus has accepted. */
export function namesOfExpression(expr: string): NamesOfExpression {
  const grouped: string[] = [];
  const rest = expr
    .replace(/"(?:[^"\\]|\\.)*"/g, '""')
    .replace(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g, (_, labels: string) => {
      grouped.push(...wordsOf(labels));
      return ' ';
    })
    .replace(/\[[^\]]*\]/g, ' ')
    .replace(/\boffset\s+\w+/g, ' ');
  const metrics = [...rest.matchAll(/([a-zA-Z_:][\w:]*)\s*(\{[^}]*\}|\()?/g)].flatMap(([, name = '', follows = '']) =>
    follows === '(' || OPERATORS.has(name) || (follows === '' && /^e\d*$/i.test(name))
      ? []
      : [{ name, labels: [...follows.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label) }],
  );
  return { metrics, grouped };
}

function wordsOf(text: string): string[] {
  return [...text.matchAll(/\w+/g)].map(String);
}
