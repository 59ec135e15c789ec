import { parseYaml, yamlMember } from '../base/lib/yaml.ts';
import { formatYaml, type KeyOrder } from '../base/lib/yaml-format.ts';
import { BUNDLE_SCHEMA, RULE_FILE_SCHEMA } from '../decide/policy/bundle.ts';
import { compareLayers, isLayer } from '../decide/policy/layers.ts';
import { SUITE_SCHEMA } from '../decide/policy/suite.ts';

/** Keys in the order in which a person reads them. */
const TOP = [
  'schema',
  'bundle_id',
  'version',
  'description',
  'policies',
  'rule_files',
  'evaluation',
  'layer',
  'files',
  'inline_rules',
  'rules',
];
const RULE = ['id', 'description', 'priority', 'disabled', 'when', 'conditions', 'effect'];
const CASE = ['name', 'description'];
const CASE_ENDS = ['expect', 'errors'];

/** Whether the text is one that {@link formatPolicy} is for. */
export function isPolicyText(text: string): boolean {
  const schema = yamlMember(parseYaml(text, '').root, 'schema');
  return schema?.kind === 'scalar' && [BUNDLE_SCHEMA, RULE_FILE_SCHEMA, SUITE_SCHEMA].includes(schema.source);
}

/**
 * The canonical layout of a bundle, a rule file or a suite: what comes first is what a person looks for first, layers
 * stand in the order in which they are asked.
 * @throws YamlFormatError
 */
export function formatPolicy(text: string): string {
  return formatYaml(text, keyOrder);
}

const keyOrder: KeyOrder = (keys, way) => {
  if (way.length === 0) return by(TOP);
  // What is sent upstream, and what describes a request, stays in the order in which it was written.
  if (way.includes('value') || way.includes('facts') || way.includes('expect')) return undefined;
  if (keys.includes('id') && (keys.includes('effect') || keys.includes('disabled'))) return by(RULE);
  if (way.at(-1) === 'inline_rules' && keys.every(isLayer)) return compareLayers;
  if (keys.includes('field')) return by(['field']);
  return way.at(-1) === 'cases' ? by(CASE, CASE_ENDS) : undefined;
};

/** Named keys first (or last), the others between them in the order in which they stand: sorting is stable. */
function by(first: readonly string[], last: readonly string[] = []): (a: string, b: string) => number {
  const rank = (key: string) => (first.includes(key) ? first.indexOf(key) : last.includes(key) ? first.length + 1 : first.length);
  return (a, b) => rank(a) - rank(b);
}
