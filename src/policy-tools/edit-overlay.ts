import { GatewayError } from '../base/lib/gateway-error.ts';
import { parseYaml, toPlain } from '../base/lib/yaml.ts';
import { type GivenItem, type ItemPlace, YamlEdit, YamlEditError } from '../base/lib/yaml-edit.ts';
import { POLICY_BOUNDS } from '../base/model/work-bounds.ts';
import { BUNDLE_SCHEMA } from '../decide/policy/bundle.ts';

/*
 * Single rules in the text of an overlay: comments and the order of all other rules stay. Whether what comes out loads
 * is judged where it is put.
 */

const RULES = 'inline_rules';
/** What an overlay without rules may have and still lays nothing over the bundle. */
const EMPTY: ReadonlySet<string> = new Set(['schema', 'description', RULES]);

/** A rule of a text. */
export interface RuleName {
  readonly layer: string;
  readonly rule_id: string;
}

/** One with its text, as YAML. */
export interface RuleText extends RuleName {
  readonly rule_yaml: string;
}

/** Every rule of an overlay, in the order of its text. @throws as {@link putRule} */
export function rulesIn(text: string): readonly RuleText[] {
  return text.trim() === '' ? [] : rulesOf(editOf(text, 'overlay'));
}

/**
 * Puts one rule into an overlay, in the place of the one of the same layer and id where there is one.
 * @param text of the overlay; empty: there is none
 * @param given the rule as YAML or JSON; its id may be left out
 * @throws GatewayError `invalid_policy` for a text that is no sound YAML, `invalid_request` for what cannot be changed
 * in it and for one that is too long to be changed rule by rule (`POLICY_BOUNDS.edited`)
 */
export function putRule(text: string, { layer, rule_id: id }: RuleName, given: string, place: ItemPlace): string {
  const rule = ruleIn(given);
  return edited(text, (edit) => edit.put([RULES, layer], id, rule, place));
}

/** Takes rules out of an overlay; empty: nothing is left in it. @throws as {@link putRule} */
export function removeRules(text: string, names: readonly RuleName[]): string {
  return edited(text, (edit) => {
    for (const { layer, rule_id: id } of names) edit.remove([RULES, layer], id);
  });
}

/**
 * Lays the rules and header members of a fragment into an overlay, and leaves everything else in it as it is.
 * @throws as {@link putRule}
 */
export function mergeRules(text: string, fragment: string): string {
  const from = editOf(fragment, 'fragment');
  return edited(text, (edit) => {
    for (const path of headerOf(from)) edit.take(path, from);
    for (const { layer, rule_id: id, rule_yaml: yaml } of rulesOf(from)) edit.put([RULES, layer], id, { yaml });
  });
}

function headerOf(edit: YamlEdit): readonly (readonly string[])[] {
  const keys = edit.keys([]).filter((key) => key !== 'schema' && key !== RULES);
  return keys.flatMap((key) => (key === 'evaluation' ? edit.keys([key]).map((member) => [key, member]) : [[key]]));
}

function rulesOf(edit: YamlEdit): readonly RuleText[] {
  return edit.keys([RULES]).flatMap((layer) => {
    const ids = edit.ids([RULES, layer]) ?? [];
    return ids.map((id) => ({ layer, rule_id: id, rule_yaml: edit.item([RULES, layer], id) ?? '' }));
  });
}

function ruleIn(text: string): GivenItem {
  const { root, errors } = parseYaml(text, 'rule');
  if (errors.length > 0) throw new GatewayError('invalid_policy', 'The rule is no sound YAML.', { details: errors });
  if (root.kind !== 'map')
    throw new GatewayError('invalid_request', 'The rule must be one map: when or conditions, effect, and what else it has.');
  // JSON is written as the rest of an overlay is.
  return text.trimStart().startsWith('{"') ? { data: toPlain(root) as object } : { yaml: text };
}

function edited(text: string, change: (edit: YamlEdit) => void): string {
  const edit = editOf(text.trim() === '' ? `schema: ${BUNDLE_SCHEMA}\n` : text, 'overlay');
  try {
    change(edit);
    const isEmpty = edit.keys([RULES]).length === 0 && edit.keys([]).every((key) => EMPTY.has(key));
    return isEmpty ? '' : edit.text();
  } catch (error) {
    throw error instanceof YamlEditError ? unchangeable(error) : error;
  }
}

function unchangeable(cause: YamlEditError): GatewayError {
  return new GatewayError('invalid_request', `The overlay cannot be changed so: ${cause.message}.`, { cause });
}

function editOf(text: string, what: 'overlay' | 'fragment'): YamlEdit {
  const most = POLICY_BOUNDS.edited.one;
  if (text.length > most)
    throw new GatewayError(
      'invalid_request',
      `The ${what} has ${text.length} characters; rule by rule at most ${most} are changed: put the whole overlay.`,
    );
  const { errors } = parseYaml(text, what);
  if (errors.length > 0) throw new GatewayError('invalid_policy', `The ${what} is no sound YAML.`, { details: errors });
  return new YamlEdit(text);
}
