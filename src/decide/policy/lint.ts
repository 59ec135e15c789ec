import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { nearestName } from '../../base/lib/mistakes.ts';
import { type YamlNode, yamlEntry, yamlMember } from '../../base/lib/yaml.ts';
import { type Decision, permits } from '../../base/model/reason-codes.ts';
import type { FileList } from './bundle.ts';
import { emptiedLayers, type Layers, makesAllowList, type PolicyOptions, type ReadPolicy } from './compile.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import type { Condition } from './condition.ts';
import { type Conjunction, conjunctionOf, implies, neverHolds } from './condition-logic.ts';
import { isOptional } from './contradiction.ts';
import { doorFindings } from './door-fields.ts';
import { isOneText } from './fields.ts';
import { GATE_CODES } from './layers.ts';
import { sortByPlace } from './problems.ts';
import type { Rule } from './rule.ts';

/*
 * What loads and is probably not meant ("Tools around it" of policy.md). A warning never keeps a bundle from loading.
 */

export const LINT_CODES = [
  'unreachable_rule',
  'unconditional_allow',
  'negation_on_optional',
  'money_as_number',
  'becomes_allow_list',
  'opens_empty_layer',
  'empties_layer',
  'never_equal',
  'near_parameter',
  'text_not_boolean',
  'empty_list',
  'disables_nothing',
  'files_do_not_count',
  'never_at_door',
  'denies_all',
] as const;
export type LintCode = (typeof LINT_CODES)[number];

/** What turns a name into the id of a connector; undefined for one that no connector has. */
type ConnectorId = NonNullable<PolicyOptions['connectorId']>;

/** The warnings about a policy that was read without problems and compiled, in the order of its texts and lines. */
export function lintPolicy(read: ReadPolicy, policy: CompiledPolicy, connectorId: ConnectorId = (text) => text): readonly ErrorDetail[] {
  const { levels, idle, unused } = read;
  const rules: Layers = levels.at(-1) ?? new Map();
  const warnings: ErrorDetail[] = [];
  for (const layer of rules.values()) {
    for (const rule of layer.values())
      warnings.push(
        ...unconditionalAllow(rule),
        ...negations(rule),
        ...moneyAsNumber(rule),
        ...fieldSlips(rule),
        ...neverAtDoor(rule),
        ...unknownConnectors(rule, connectorId),
      );
  }
  const unreachable = new Map<CompiledRule, string>();
  if (policy.strategy === 'first_match') for (const layer of policy.layers) findShadowed(layer, unreachable);
  findUnevaluated(policy, unreachable);
  for (const [{ layer, id }, why] of unreachable) {
    const rule = rules.get(layer)?.get(id);
    if (rule !== undefined)
      warnings.push(warning(rule, rule.node, 'unreachable_rule', why, 'remove the rule, or change its priority or condition'));
  }
  warnings.push(...gateChanges(read), ...emptiedLayers(read).map(emptiesLayer), ...idle.map(disablesNothing));
  if (unused !== undefined) warnings.push(filesDoNotCount(unused));
  return sortByPlace(warnings);
}

/** What people are told of the files that a bundle names beside `inline_rules`. */
export function unusedFilesMessage(files: readonly string[]): string {
  return `the bundle has inline_rules, which count alone: the rules in ${files.join(', ')} do not`;
}

function filesDoNotCount({ node, place, names }: FileList): ErrorDetail {
  const message = unusedFilesMessage(names.map(({ name }) => name));
  const hint = 'move the inline rules into a file, or take files: away';
  return { path: place.path, message, file: place.file, line: node.line, column: node.column, code: 'files_do_not_count', hint };
}

/** What people are told of a gating layer whose rules were all taken away. */
export function emptiedMessage(layer: string): string {
  return `the layer ${layer} has no rule left, so it counts as absent: it denies nothing`;
}

function emptiesLayer(rule: Rule): ErrorDetail {
  const hint = 'if everything should be denied here, put a rule without a condition that does';
  return warning(rule, rule.node, 'empties_layer', emptiedMessage(rule.layer), hint);
}

/** A misspelt id leaves the rule that is meant in force. */
function disablesNothing(rule: Rule): ErrorDetail {
  const message = `disabled takes no rule away: the layer ${rule.layer} has no rule "${rule.id}" below this overlay`;
  return warning(rule, rule.node, 'disables_nothing', message, 'write layer and id as they stand in the bundle');
}

function unconditionalAllow(rule: Rule): readonly ErrorDetail[] {
  const { decision } = rule.effects;
  if (decision === undefined || !permits(decision) || !alwaysHolds(rule.condition)) return [];
  const node = yamlMember(yamlMember(rule.node, 'effect'), 'decision') ?? rule.node;
  return [
    warning(
      rule,
      node,
      'unconditional_allow',
      'the rule has no condition: it allows every request',
      'say what it allows with when or conditions',
    ),
  ];
}

function negations(rule: Rule): readonly ErrorDetail[] {
  const tests = testsOf(rule.condition);
  const asked = new Set(tests.flatMap((test) => (test.kind === 'exists' ? [test.field.name] : [])));
  const { decision } = rule.effects;
  const refuses = decision !== undefined && !permits(decision);
  return tests.flatMap((test) => {
    if (test.kind !== 'value' || !test.negated || asked.has(test.field.name) || !isOptional(test.field)) return [];
    const name = `context.${test.field.name}`;
    const effect = refuses ? 'the rule also refuses requests without' : 'the rule never matches requests without';
    const message = `${name} may be missing, and under a negation ${effect} it`;
    const hint = `say which is meant: beside it {field: ${name}, exists: true} leaves these requests out; any: [{field: ${name}, exists: false}, this test] takes them in`;
    return [warning(rule, test.entry.key, 'negation_on_optional', message, hint)];
  });
}

/** A rule that waits for what never comes by a door that it is asked at. */
function neverAtDoor(rule: Rule): readonly ErrorDetail[] {
  const { condition, effects } = rule;
  return doorFindings(condition, effects.decision).map(({ field, message, hint }) => {
    const test = testsOf(condition).find((one) => one.kind === 'value' && one.field.name === field);
    return warning(rule, test?.kind === 'value' ? test.entry.key : rule.node, 'never_at_door', message, hint);
  });
}

function moneyAsNumber(rule: Rule): readonly ErrorDetail[] {
  const amounts: YamlNode[] = [];
  const budget = yamlMember(yamlMember(rule.node, 'effect'), 'budget');
  if (budget?.kind === 'map') amounts.push(...budget.entries.map((entry) => entry.value));
  for (const test of testsOf(rule.condition)) {
    if (test.kind !== 'value' || test.field.type !== 'money') continue;
    const literal = test.entry.value;
    amounts.push(...(literal.kind === 'seq' ? literal.items : [literal]));
  }
  return amounts.flatMap((node) => {
    if (node.kind !== 'scalar' || node.quoted) return [];
    const message = `money as a bare number: other tools may round ${node.source}`;
    return [warning(rule, node, 'money_as_number', message, `write "${node.source}"`)];
  });
}

/** Members of a body that rules ask for most, and those that are spelt nearly so and are meant. */
const PARAMETERS = ['model', 'messages', 'stream', 'max_tokens', 'max_completion_tokens', 'max_output_tokens'];
const ALSO_PARAMETERS = ['models', 'mode', 'message'];

/** Open maps take any name and any literal, so a slip there loads, and its rule never matches. */
function fieldSlips(rule: Rule): readonly ErrorDetail[] {
  return testsOf(rule.condition).flatMap((test) => {
    const { name } = test.field;
    const found: ErrorDetail[] = [];
    const [, parameter = ''] = /^action\.params\.([^.]+)/.exec(name) ?? [];
    const nearest = nearestParameter(parameter);
    const node = test.kind === 'value' ? test.entry.key : rule.node;
    if (nearest !== undefined) {
      const message = `context.${name} is a member that no provider is known to have`;
      found.push(warning(rule, node, 'near_parameter', message, `did you mean "context.action.params.${nearest}"?`));
    }
    if (test.kind === 'value')
      found.push(
        ...emptyList(rule, test),
        ...patternAsText(rule, test),
        ...(isOneText(test.field) ? neverEqual(rule, test) : notBoolean(rule, test)),
      );
    return found;
  });
}

/** Longer names that begin as a known one does (`stream_options`) are names of their own. */
function nearestParameter(name: string): string | undefined {
  if (name === '' || PARAMETERS.includes(name) || ALSO_PARAMETERS.includes(name)) return undefined;
  const nearest = nearestName(name, PARAMETERS);
  return nearest !== undefined && Math.abs(nearest.length - name.length) <= 2 ? nearest : undefined;
}

function emptyList(rule: Rule, { field, entry, negated }: ValueTest): readonly ErrorDetail[] {
  if (entry.value.kind !== 'seq' || entry.value.items.length > 0) return [];
  const holds = negated ? 'every value' : 'no value';
  const message = `the list that context.${field.name} is compared with is empty: the test holds for ${holds}`;
  return [
    warning(
      rule,
      entry.key,
      'empty_list',
      message,
      negated ? 'write exists: true if that is meant' : 'put something into it, or remove the rule',
    ),
  ];
}

/** What YAML 1.1 took for booleans. */
const OLD_BOOLEAN = /^(?:yes|no|on|off)$/i;

function notBoolean(rule: Rule, { field, entry }: ValueTest): readonly ErrorDetail[] {
  if (field.type !== 'open') return [];
  const literals = entry.value.kind === 'seq' ? entry.value.items : [entry.value];
  return literals.flatMap((node) => {
    if (node.kind !== 'scalar' || node.quoted || !OLD_BOOLEAN.test(node.source)) return [];
    const message = `${node.source} is a text in YAML 1.2, which a true or false in the body never equals`;
    const meant = /^(?:yes|on)$/i.test(node.source);
    return [warning(rule, node, 'text_not_boolean', message, `write ${meant}, or "${node.source}" if the text is meant`)];
  });
}

/** A connector of an org may be made later, so that its name is none that nobody has. */
function unknownConnectors(rule: Rule, connectorId: ConnectorId): readonly ErrorDetail[] {
  return testsOf(rule.condition).flatMap((test) => {
    if (test.kind !== 'value' || !test.field.type.startsWith('connector') || test.compiled.equalTo === undefined) return [];
    const { value } = test.entry;
    return (value.kind === 'seq' ? value.items : [value]).flatMap((node) => {
      if (node.kind !== 'scalar' || connectorId(node.source) !== undefined) return [];
      const message = `no connector is called "${node.source}", so that context.${test.field.name} never equals it`;
      return [warning(rule, node, 'never_equal', message, 'docs/reference/providers.md has their names; one of an org is custom:ID')];
    });
  });
}

/** Names that no asterisk stands in; labels, which may have one, are passed over. */
function patternAsText(rule: Rule, { field, compiled, entry }: ValueTest): readonly ErrorDetail[] {
  if (compiled.equalTo === undefined || (field.type !== 'text' && field.name !== 'action.params.model')) return [];
  const literals = entry.value.kind === 'seq' ? entry.value.items : [entry.value];
  return literals.flatMap((node) => {
    if (node.kind !== 'scalar' || !node.source.includes('*')) return [];
    const message = `an asterisk stands for itself here, so that "${node.source}" equals no context.${field.name}`;
    return [
      warning(rule, node, 'never_equal', message, `write glob: "${node.source}" (* within a dot- or slash-separated part, ** across)`),
    ];
  });
}

/** Operators that take numbers alone: in quotes their value would be refused. */
const ORDERINGS: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte']);

function neverEqual(rule: Rule, { field, operator, entry }: ValueTest): readonly ErrorDetail[] {
  const literals = entry.value.kind === 'seq' ? entry.value.items : [entry.value];
  return literals.flatMap((node) => {
    if (node.kind !== 'scalar' || typeof node.value === 'string') return [];
    const always = `context.${field.name} is always a text`;
    if (ORDERINGS.has(operator))
      return [warning(rule, node, 'never_equal', `${always}, and texts have no order`, 'use equals, in or matches, with texts')];
    return [warning(rule, node, 'never_equal', `${always}, which ${node.source} never equals`, `write "${node.source}"`)];
  });
}

/** A rule that ends its layer for every request that it matches. */
interface Ender {
  readonly rule: CompiledRule;
  readonly tests: Conjunction;
}

/** Rules that can never match, and rules whose requests an earlier rule of the layer always takes (policy.md 7). */
function findShadowed(layer: CompiledLayer, unreachable: Map<CompiledRule, string>): void {
  // Each stands under one of its tests, which a rule that it takes all requests from must have too.
  const enders = new Map<string | undefined, Ender[]>();
  for (const rule of layer.rules) {
    if (neverHolds(rule.condition)) {
      unreachable.set(rule, 'the condition can never hold: two of its tests exclude each other');
      continue;
    }
    const tests = conjunctionOf(rule.condition);
    const ender = [undefined, ...tests.keys].flatMap((key) => enders.get(key) ?? []).find((earlier) => takesAll(earlier, rule, tests));
    if (ender !== undefined) {
      const { id, file, line } = ender.rule;
      unreachable.set(rule, `the rule "${id}" (${file}:${line}) comes first and decides every request that this one matches`);
    } else if (alwaysDecides(rule)) {
      const [key] = tests.keys;
      enders.set(key, [...(enders.get(key) ?? []), { rule, tests }]);
    }
  }
}

function takesAll(earlier: Ender, rule: CompiledRule, tests: Conjunction): boolean {
  const { decision } = earlier.rule;
  // A rule without a decision contributes below one that allows.
  if (rule.decision === undefined && decision !== undefined && permits(decision)) return false;
  return implies(tests, earlier.tests, refuses(rule) === refuses(earlier.rule));
}

/** A rule that decides `rate_limit` or `require_attribution` can have no opinion (policy.md 2, decision 6.11). */
function alwaysDecides({ decision }: CompiledRule): boolean {
  return decision !== undefined && decision !== 'rate_limit' && decision !== 'require_attribution';
}

function refuses({ decision }: CompiledRule): boolean {
  return decision !== undefined && !permits(decision);
}

/** Layers behind one that stops every request (policy.md 5). */
function findUnevaluated(policy: CompiledPolicy, unreachable: Map<CompiledRule, string>): void {
  let stop: string | undefined;
  for (const layer of policy.layers) {
    if (stop !== undefined) {
      for (const rule of layer.rules) unreachable.set(rule, stop);
      continue;
    }
    const end = stopsAll(layer, policy.stopOn);
    if (end !== undefined) stop = `the layer ${layer.name} stops every request before the layer of this rule is asked: ${end}`;
  }
}

function stopsAll(layer: CompiledLayer, stopOn: ReadonlySet<Decision>): string | undefined {
  if (layer.rules.length === 0) return layer.gateCode !== undefined && stopOn.has('deny') ? 'it has no rules, so it denies' : undefined;
  const deciding = layer.rules.find((rule) => rule.decision !== undefined);
  if (deciding?.decision === undefined || !alwaysHolds(deciding.condition) || !alwaysDecides(deciding)) return undefined;
  return stopOn.has(deciding.decision) ? `rule "${deciding.id}" has no condition` : undefined;
}

/** Rules that change what the absence of a match means in a gating layer (policy.md 2, 3). */
function gateChanges({ levels, statedEmpty }: ReadPolicy): readonly ErrorDetail[] {
  return levels.flatMap((level, i) =>
    Object.entries(GATE_CODES).flatMap(([name, code]) => {
      const now = [...(level.get(name)?.values() ?? [])];
      const allowing = now.filter(makesAllowList);
      const before = i === 0 ? undefined : levels[i - 1]?.get(name);
      const [first] = allowing;
      if (first !== undefined && turnsIntoAllowList(now, allowing, before)) {
        const message = `this rule makes the layer ${name} an allow-list: what no allowing rule of it matches is denied (${code})`;
        const hint = 'if the layer should only refuse, exempt these requests in its refusing rules instead';
        return [warning(first, first.node, 'becomes_allow_list', message, hint)];
      }
      const [refusing] = now;
      const wasClosed = before?.size === 0 && statedEmpty[i - 1]?.has(name) === true;
      if (refusing === undefined || first !== undefined || !wasClosed) return [];
      const message = `the layer ${name} was empty and denied everything; with this rule it only denies what its rules match`;
      return [warning(refusing, refusing.node, 'opens_empty_layer', message, 'leave the layer empty to go on denying everything')];
    }),
  );
}

/**
 * In one level a single allow beside refusals may be meant as an exemption from them; one that ranks below all of them
 * exempts from nothing.
 */
function turnsIntoAllowList(now: readonly Rule[], allowing: readonly Rule[], before: ReadonlyMap<string, Rule> | undefined): boolean {
  if (before === undefined) {
    const [only] = allowing;
    const exempts = ({ effects, priority }: Rule): boolean =>
      effects.decision !== undefined && !permits(effects.decision) && only !== undefined && priority <= only.priority;
    return allowing.length === 1 && now.some(exempts);
  }
  const allowed = [...before.values()].some(makesAllowList);
  return before.size > 0 && !allowed;
}

type Test = Extract<Condition, { kind: 'value' } | { kind: 'exists' }>;
type ValueTest = Extract<Condition, { kind: 'value' }>;

function testsOf(condition: Condition): readonly Test[] {
  return 'parts' in condition ? condition.parts.flatMap(testsOf) : [condition];
}

function alwaysHolds(condition: Condition): boolean {
  return condition.kind === 'all' && condition.parts.length === 0;
}

function warning(rule: Rule, node: YamlNode, code: LintCode, message: string, hint: string): ErrorDetail {
  const { file, path } = rule.place;
  const at = node === rule.node ? (yamlEntry(node, 'id')?.value ?? node) : node;
  return { path, message, file, line: at.line, column: at.column, rule_id: rule.id, code, hint };
}
