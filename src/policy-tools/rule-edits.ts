import type { JsonObject } from '../base/json/json-object.ts';
import type { YamlNode } from '../base/lib/yaml.ts';
import type { ReadPolicy } from '../decide/policy/compile.ts';
import type { Rule } from '../decide/policy/rule.ts';
import type { Level } from '../decide/policy/verdict.ts';

/** What one rule of a text says before and after a change, without its id; undefined: it does not stand there. */
export interface RuleEdit {
  readonly layer: string;
  readonly rule_id: string;
  readonly level: Level;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject | undefined;
}

type ReadRules = Pick<ReadPolicy, 'levels' | 'disabling'>;

/**
 * The rules that two texts write down differently: those that are gone, then those that say something else, then those
 * that are new. Rules that say `disabled` are rules of their text, and what stands in other texts is told of neither
 * side: an org is not told what the bundle says.
 * @param isOfText tells the rules of the text that is changed
 */
export function ruleEdits(before: ReadRules, after: ReadRules, isOfText: (rule: Rule) => boolean): readonly RuleEdit[] {
  const stood = writtenRules(before, isOfText);
  const stands = writtenRules(after, isOfText);
  const edits: RuleEdit[] = [];
  for (const [name, rule] of stood) if (!stands.has(name)) edits.push({ ...placeOf(rule), before: contentOf(rule), after: undefined });
  for (const [name, rule] of stands) {
    const was = stood.get(name);
    if (was === undefined) continue;
    const [old, now] = [contentOf(was), contentOf(rule)];
    if (JSON.stringify(old) !== JSON.stringify(now)) edits.push({ ...placeOf(rule), before: old, after: now });
  }
  for (const [name, rule] of stands) if (!stood.has(name)) edits.push({ ...placeOf(rule), before: undefined, after: contentOf(rule) });
  return edits;
}

function writtenRules({ levels, disabling }: ReadRules, isOfText: (rule: Rule) => boolean): ReadonlyMap<string, Rule> {
  const all = [...levels.flatMap((layers) => [...layers.values()].flatMap((rules) => [...rules.values()])), ...disabling];
  return new Map(all.filter(isOfText).map((rule) => [`${rule.layer}/${rule.id}@${rule.level}`, rule]));
}

function placeOf({ layer, id, level }: Rule): Pick<RuleEdit, 'layer' | 'rule_id' | 'level'> {
  return { layer, rule_id: id, level };
}

/** In the order of the names of members, so that two spellings of the same are equal. */
function contentOf({ node }: Rule): JsonObject {
  return Object.fromEntries(
    node.entries
      .filter(({ key }) => key.source !== 'id')
      .map(({ key, value }) => [key.source, plainOf(value)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** Whole numbers, switches and null as they are; everything else as it is written, money among it. */
function plainOf(node: YamlNode): unknown {
  switch (node.kind) {
    case 'seq':
      return node.items.map(plainOf);
    case 'map':
      return Object.fromEntries(
        node.entries.map(({ key, value }) => [key.source, plainOf(value)] as const).sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    case 'scalar':
      return typeof node.value === 'boolean' || node.value === null || Number.isSafeInteger(node.value) ? node.value : node.source;
  }
}
