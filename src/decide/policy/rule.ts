import { sha256Hex } from '../../base/lib/sha256.ts';
import type { YamlEntry, YamlMap, YamlNode } from '../../base/lib/yaml.ts';
import type { RuleNode } from './bundle.ts';
import { type Condition, readRuleCondition } from './condition.ts';
import { type EffectReader, type RuleEffects, readEffects } from './effects.ts';
import type { SourcePlace } from './problems.ts';
import type { Level } from './verdict.ts';

/** One rule, read and sound, before it is compiled. */
export interface Rule {
  readonly layer: string;
  readonly id: string;
  readonly level: Level;
  readonly priority: number;
  /** Takes the rule of the same layer and id away (policy.md 9). */
  readonly disabled: boolean;
  readonly condition: Condition;
  readonly effects: RuleEffects;
  readonly place: SourcePlace;
  readonly node: YamlMap;
  /**
   * The gateway itself has written it, for a reason that persons gave: what it allows shuts out nothing else (policy.md
   * 3).
   */
  readonly generated: boolean;
  /** What this rule of an overlay stands in the place of, `layer/id@level`, oldest first. */
  readonly replaces: readonly string[];
}

const ID = /^[\x21-\x7e]{1,128}$/;
const INTEGER = /^[+-]?\d{1,15}$/;
export const RULE_KEYS = ['id', 'priority', 'when', 'conditions', 'effect', 'disabled', 'description'];

/** Reads one rule; undefined when it has no usable id. Other mistakes become problems and the rule is of no use. */
export function readRule(source: RuleNode, level: Level, reader: EffectReader, generated = false): Rule | undefined {
  const { problems } = reader;
  const { node, layer } = source;
  const map = problems.map(node, source.place, 'a rule');
  if (map === undefined) return undefined;
  const members = new Map<string, YamlEntry>(map.entries.map((entry) => [entry.key.source, entry]));
  const id = readId(members.get('id')?.value, node, source.place, reader);
  const place = id === undefined ? source.place : source.place.inRule(id);
  for (const { key } of map.entries) {
    if (!RULE_KEYS.includes(key.source)) problems.unknown(place.at(key.source), key, 'unknown_key', 'key of a rule', key.source, RULE_KEYS);
  }
  const disabledNode = members.get('disabled')?.value;
  const disabled = disabledNode !== undefined && problems.boolean(disabledNode, place.at('disabled'), 'disabled') === true;
  const description = members.get('description')?.value;
  if (description !== undefined) problems.scalar(description, place.at('description'), 'description');
  const effect = members.get('effect')?.value;
  if (effect === undefined && !disabled)
    problems.add(place, node, 'missing_key', 'the rule has no effect', 'add what it does, such as effect: {decision: deny}');
  const effects = effect === undefined ? {} : readEffects(effect, place.at('effect'), reader);
  const condition = readRuleCondition(members.get('when')?.value, members.get('conditions')?.value, place, reader);
  const priority = readPriority(members.get('priority')?.value, place.at('priority'), reader);
  if (id === undefined) return undefined;
  return { layer, id, level, priority, disabled, condition, effects, place, node: map, generated, replaces: [] };
}

function readId(node: YamlNode | undefined, rule: YamlNode, place: SourcePlace, { problems }: EffectReader): string | undefined {
  if (node === undefined) {
    problems.add(place, rule, 'missing_key', 'the rule has no id', 'add one, such as id: no.gpt4');
    return undefined;
  }
  const id = problems.scalar(node, place.at('id'), 'id')?.source;
  if (id === undefined || ID.test(id)) return id;
  problems.add(
    place.at('id'),
    node,
    'bad_value',
    'an id has 1 to 128 visible ASCII characters and no spaces',
    'join words by dots, as in no.gpt4',
  );
  return undefined;
}

/** An integer, default 0; anything else is a mistake (policy.md 6). */
function readPriority(node: YamlNode | undefined, place: SourcePlace, { problems }: EffectReader): number {
  if (node === undefined) return 0;
  if (node.kind === 'scalar' && !node.quoted && INTEGER.test(node.source)) return Number(node.source);
  problems.add(place, node, 'bad_value', 'priority must be a whole number', 'higher ones come first; without it a rule has 0');
  return 0;
}

/** Says nothing of what a rule does. */
const DESCRIPTION = 'description';

/**
 * SHA-256 of what a rule says: neither the order of its members nor how they are written changes it, and its
 * description is left out (decision 9.1).
 */
export function contentHashOf({ entries, ...map }: YamlMap): string {
  return sha256Hex(JSON.stringify(plain({ ...map, entries: entries.filter(({ key }) => key.source !== DESCRIPTION) })));
}

/** Maps as sorted pairs, so that they are no lists of the same texts. */
function plain(node: YamlNode): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.source;
    case 'seq':
      return node.items.map(plain);
    case 'map':
      return { of: node.entries.map(({ key, value }) => [key.source, plain(value)] as const).sort(([a], [b]) => (a < b ? -1 : 1)) };
  }
}
