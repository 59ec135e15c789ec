import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { atOnce, type Sliced } from '../../base/lib/slices.ts';
import { parseYaml } from '../../base/lib/yaml.ts';
import type { PlanTier } from '../../base/model/org.ts';
import { type Decision, permits, severityOf } from '../../base/model/reason-codes.ts';
import {
  type BundleHeader,
  type BundleShape,
  type FileList,
  type LayerNode,
  type ParseText,
  type PolicyText,
  type RuleNode,
  readBundle,
  readRuleFile,
} from './bundle.ts';
import type { CompiledLayer, CompiledPolicy, CompiledRule } from './compiled.ts';
import type { Condition } from './condition.ts';
import type { EffectReader } from './effects.ts';
import type { Field } from './fields.ts';
import { compareLayers, GATE_CODES, isCustomLayer, tierAllows } from './layers.ts';
import { PatternSum } from './pattern-sum.ts';
import { compileMissingMark, compilePredicate } from './predicate.ts';
import { Problems } from './problems.ts';
import { contentHashOf, type Rule, readRule } from './rule.ts';
import { indexRules } from './rule-index.ts';
import type { Level } from './verdict.ts';

/*
 * The policy room: a bundle's text in, one immutable snapshot out (here), and from snapshot and facts a verdict
 * (evaluate.ts). Pure: no file, no clock, no state. Files are read by whoever holds the policies folder; what the
 * language means is said where it is compiled.
 */

export interface PolicyInput {
  readonly bundle: PolicyText;
  /**
   * Texts of the rule files by the names that the bundle's `files` uses. Undefined for a bundle that came by API, where
   * `files` is a mistake (decision 5.6) unless there are `inline_rules`, beside which it never counts.
   */
  readonly files?: ReadonlyMap<string, string> | undefined;
  /**
   * Rule files that count when the bundle has neither `inline_rules` nor `files`; none for a bundle that came by API
   * (decision 5.1).
   */
  readonly addons?: readonly PolicyText[];
  /** Of several texts of one level a later one is laid over those before it. */
  readonly overlays?: { readonly org?: OverlayTexts; readonly node?: OverlayTexts };
  /** Rule files of the org's add-ons, laid over all levels (decision 5.7). */
  readonly generated?: readonly GeneratedText[];
  readonly tier: PlanTier;
}

export type OverlayTexts = PolicyText | readonly PolicyText[] | undefined;

/**
 * A rule file that the gateway itself lays over what persons have written. It only refuses or has effects, and opens no
 * layer that is empty and so closed (policy.md 2).
 */
export interface GeneratedText extends PolicyText {
  /**
   * `preset`: a rule of the same layer and id in an overlay stands in its place, and the tier holds. `switch`: nothing
   * stands in its place, on any tier.
   */
  readonly kind: 'preset' | 'switch';
}

/** The texts of one level, in the order in which they are laid. */
export function textsOfLevel(texts: OverlayTexts): readonly PolicyText[] {
  if (texts === undefined) return [];
  return 'text' in texts ? [texts] : texts;
}

export interface PolicyOptions {
  /**
   * Turns a neutral name or alias into the canonical connector id, undefined for an unknown one (decisions, section 1).
   * Default: any id is taken as it is.
   */
  readonly connectorId?: (text: string) => string | undefined;
  /** Loads the effects that nothing enforces yet. For tests of the language only. */
  readonly allowUnsupported?: boolean;
  /** For whoever has parsed the texts before. Default: they are parsed here and at once. */
  readonly parse?: ParseText;
}

export type PolicyResult =
  | { readonly policy: CompiledPolicy; readonly errors?: undefined }
  | { readonly policy?: undefined; readonly errors: readonly ErrorDetail[] };

const NO_LAYERS: Layers = new Map();
/** What reading or compiling a rule takes beside its patterns. */
const STEPS_OF_RULE = 20;
const DEFAULT_STOP_ON: readonly Decision[] = ['deny', 'require_approval', 'require_attribution'];

/**
 * Compiles a bundle with its overlays, or reports every mistake in all of the texts at once (policy.md 17). Never
 * throws on any text.
 */
export function compilePolicy(input: PolicyInput, options: PolicyOptions = {}): PolicyResult {
  return atOnce(compiling(input, options));
}

/** As {@link compilePolicy}, in slices. */
export function* compiling(input: PolicyInput, options: PolicyOptions = {}): Sliced<PolicyResult> {
  return yield* compilingRead(yield* readingPolicy(input, options));
}

/** As {@link compilePolicy}, of what has been read. */
export function compileRead(read: ReadPolicy): PolicyResult {
  return atOnce(compilingRead(read));
}

function* compilingRead(read: ReadPolicy): Sliced<PolicyResult> {
  const { problems, patterns, header, levels, closed, unused } = read;
  yield* patterns.compile(problems);
  if (problems.found) return { errors: problems.sorted() };
  const emptied = emptiedLayers(read).map(({ layer, id, place, node }) => ({ layer, rule_id: id, file: place.file, line: node.line }));
  const unusedFiles = unused?.names.map(({ name }) => name) ?? [];
  return {
    policy: { ...(yield* assemble(header, levels.at(-1) ?? NO_LAYERS, closed)), patternSteps: patterns.steps, emptied, unusedFiles },
  };
}

/** What the texts say, before it is compiled. */
export interface ReadPolicy {
  readonly problems: Problems;
  /** What is compiled when the rest is. */
  readonly patterns: PatternSum;
  readonly header: BundleHeader;
  /** The effective rules after the base bundle, after the org overlay and after the node overlay, if there are any. */
  readonly levels: readonly Layers[];
  /**
   * Layers that somebody has written down as empty, up to each of these levels: an empty one of them denies everything.
   */
  readonly statedEmpty: readonly ReadonlySet<string>[];
  /**
   * Layers that are written down as empty and have no rule of persons: what the gateway lays over them opens none of
   * them.
   */
  readonly closed: ReadonlySet<string>;
  /** Rules that say `disabled`, in the order in which they were laid. */
  readonly disabling: readonly Rule[];
  /** Rules of overlays that say `disabled` of a rule that is not there. */
  readonly idle: readonly Rule[];
  /** What the bundle names under `files` beside `inline_rules`, which count alone. */
  readonly unused: FileList | undefined;
}

/** Reads a bundle with its overlays; not to be used when it has problems. */
export function readPolicy(input: PolicyInput, options: PolicyOptions = {}): ReadPolicy {
  return atOnce(readingPolicy(input, options));
}

/** As {@link readPolicy}, in slices. */
export function* readingPolicy(input: PolicyInput, options: PolicyOptions): Sliced<ReadPolicy> {
  const problems = new Problems();
  const patterns = new PatternSum();
  const reader: EffectReader = {
    problems,
    patterns,
    connectorId: options.connectorId ?? ((text) => text),
    allowUnsupported: options.allowUnsupported ?? false,
  };
  const levels: Layers[] = [];
  const idle: Rule[] = [];
  const disabling: Rule[] = [];
  const statedEmpty: ReadonlySet<string>[] = [];
  const header: BundleHeader = {};
  const { parse = parseYaml } = options;
  const top = (): Layers => levels.at(-1) ?? NO_LAYERS;
  function* lay(nodes: readonly LayerNode[], how: Laying): Sliced<void> {
    levels.push(yield* applyLevel(top(), nodes, how, reader, { idle, disabling }));
    const empty = nodes.filter(({ rules }) => rules.length === 0).map(({ layer }) => layer);
    statedEmpty.push(new Set([...(statedEmpty.at(-1) ?? []), ...empty]));
  }
  const base = readBundle(input.bundle, problems, parse);
  if (base !== undefined) {
    Object.assign(header, base.header);
    yield* lay(baseLayers(base, input, problems, parse), { level: 'base', tier: input.tier, generated: false });
  }
  patterns.endBundle();
  for (const [level, text] of overlaysOf(input)) {
    const overlay = readBundle(text, problems, parse);
    if (overlay === undefined) continue;
    Object.assign(header, overlay.header);
    if (overlay.files !== undefined)
      problems.add(overlay.files.place, overlay.files.node, 'files_not_allowed', 'an overlay holds its rules under inline_rules');
    yield* lay(overlay.inline ?? [], { level, tier: input.tier, generated: text.ownRules === true });
  }
  const closed = closedLayers(top(), statedEmpty.at(-1));
  for (const text of input.generated ?? []) {
    const file = readRuleFile(text, problems, parse);
    if (file === undefined) continue;
    levels.push(yield* applyGenerated(top(), file, text.kind, input.tier, reader));
    statedEmpty.push(statedEmpty.at(-1) ?? new Set());
  }
  return { problems, patterns, header, levels, statedEmpty, closed, disabling, idle, unused: base && unusedFiles(base) };
}

/** In the order in which they are laid. */
function overlaysOf({ overlays }: PolicyInput): readonly (readonly [Level, PolicyText])[] {
  return (['org', 'node'] as const).flatMap((level) => textsOfLevel(overlays?.[level]).map((text) => [level, text] as const));
}

/** One whose rules were all taken away is none of them (policy.md 9). */
function closedLayers(layers: Layers, statedEmpty: ReadonlySet<string> = new Set()): ReadonlySet<string> {
  return new Set([...statedEmpty].filter((name) => [...(layers.get(name)?.values() ?? [])].every(({ generated }) => generated)));
}

/**
 * Of each gating layer that counts as absent because its rules were taken away, the last rule that took one (policy.md
 * 9).
 */
export function emptiedLayers({ levels, closed, disabling }: Pick<ReadPolicy, 'levels' | 'closed' | 'disabling'>): readonly Rule[] {
  const top = levels.at(-1) ?? NO_LAYERS;
  return Object.keys(GATE_CODES).flatMap((name) => {
    if (top.get(name)?.size !== 0 || closed.has(name)) return [];
    return disabling.filter(({ layer }) => layer === name).slice(-1);
  });
}

/** Lays the rules of an add-on over what persons have written. */
function* applyGenerated(
  before: Layers,
  node: LayerNode,
  kind: GeneratedText['kind'],
  tier: PlanTier,
  reader: EffectReader,
): Sliced<Layers> {
  if (kind === 'switch') return yield* applyLevel(before, [node], { level: 'org', tier: 'enterprise', generated: false }, reader);
  const laid = yield* applyLevel(NO_LAYERS, [node], { level: 'org', tier, generated: false }, reader);
  return new Map([...before, [node.layer, new Map([...(laid.get(node.layer) ?? []), ...(before.get(node.layer) ?? [])])]]);
}

function unusedFiles({ inline, files }: BundleShape): FileList | undefined {
  return inline !== undefined && files !== undefined && files.names.length > 0 ? files : undefined;
}

/** `inline_rules` before `files`, add-ons only when neither is given (specification, "Policy bundle"). */
function baseLayers(bundle: BundleShape, input: PolicyInput, problems: Problems, parse: ParseText): readonly LayerNode[] {
  // Whoever puts files beside inline rules that hold nothing means the files.
  if (bundle.files !== undefined && input.files === undefined && (bundle.inline ?? []).length === 0) {
    const { node, place } = bundle.files;
    problems.add(place, node, 'files_not_allowed', 'a bundle that is put holds its rules under inline_rules');
    return [];
  }
  if (bundle.inline !== undefined) return bundle.inline;
  const texts: PolicyText[] = [];
  if (bundle.files === undefined) texts.push(...(input.addons ?? []));
  for (const { name, node, place } of bundle.files?.names ?? []) {
    const text = input.files?.get(name);
    if (text === undefined) problems.add(place, node, 'missing_file', `there is no readable file "${name}" in the policies folder`);
    else texts.push({ text, file: name });
  }
  return texts.map((text) => readRuleFile(text, problems, parse)).filter((layer) => layer !== undefined);
}

/** How a text is laid over those before it. */
interface Laying {
  readonly level: Level;
  readonly tier: PlanTier;
  /** The gateway itself has written the text. */
  readonly generated: boolean;
}

/** Rules that say `disabled`, and those of them that take nothing away. */
interface Removals {
  readonly disabling: Rule[];
  readonly idle: Rule[];
}

/** Lays one level over the ones before it: the same layer and id replaces the whole rule, `disabled` removes it. */
function* applyLevel(before: Layers, nodes: readonly LayerNode[], how: Laying, reader: EffectReader, removals?: Removals): Sliced<Layers> {
  const { level, tier, generated } = how;
  const layers: Map<string, Map<string, Rule>> = new Map([...before].map(([name, rules]) => [name, new Map(rules)]));
  const here = new Map<string, Rule>();
  for (const node of nodes) {
    checkTier(node, level, tier, reader);
    const effective = layers.get(node.layer) ?? new Map<string, Rule>();
    layers.set(node.layer, effective);
    for (const source of node.rules) {
      yield STEPS_OF_RULE;
      const rule = readRule(source, level, reader, generated);
      if (rule === undefined || isDuplicate(rule, source, here, reader)) continue;
      if (!rule.disabled) {
        effective.set(rule.id, overRule(effective.get(rule.id), rule));
        continue;
      }
      removals?.disabling.push(rule);
      if (!effective.delete(rule.id) && level !== 'base') removals?.idle.push(rule);
    }
  }
  return layers;
}

/** The rule with the trace of those that it replaces. */
function overRule(previous: Rule | undefined, rule: Rule): Rule {
  if (previous === undefined) return rule;
  // What persons have made an allow-list stays one.
  const generated = rule.generated && (previous.generated || !allows(previous));
  return { ...rule, generated, replaces: [...previous.replaces, `${previous.layer}/${previous.id}@${previous.level}`] };
}

/** Effective rules by layer and id. */
export type Layers = ReadonlyMap<string, ReadonlyMap<string, Rule>>;

/** The tier limits overlays; custom layers need `enterprise` everywhere (policy.md 2). */
function checkTier({ layer, node, place }: LayerNode, level: Level, tier: PlanTier, { problems }: EffectReader): void {
  if (level === 'base' && !isCustomLayer(layer)) return;
  if (tierAllows(tier, layer)) return;
  const where = level === 'base' ? '' : ' in overlays';
  problems.add(place, node, 'tier_not_allowed', `the plan tier ${tier} does not include the layer ${layer}${where}`);
}

function isDuplicate(rule: Rule, { node, place }: RuleNode, here: Map<string, Rule>, { problems }: EffectReader): boolean {
  const key = `${rule.layer} ${rule.id}`;
  const first = here.get(key);
  if (first === undefined) {
    here.set(key, rule);
    return false;
  }
  problems.add(
    place.inRule(rule.id),
    node,
    'duplicate_rule',
    `the layer ${rule.layer} already has a rule "${rule.id}", at ${first.place.file}:${first.node.line}`,
  );
  return true;
}

function* assemble(
  header: BundleHeader,
  layers: Layers,
  closed: ReadonlySet<string>,
): Sliced<Omit<CompiledPolicy, 'emptied' | 'unusedFiles' | 'patternSteps'>> {
  const compiled: CompiledLayer[] = [];
  const names = [...layers.keys()].filter((name) => layers.get(name)?.size !== 0 || closed.has(name)).sort(compareLayers);
  for (const name of names) compiled.push(yield* compileLayer(name, [...(layers.get(name)?.values() ?? [])], closed.has(name)));
  const rules = compiled.flatMap((layer) => layer.rules);
  const fields = fieldsOf(rules.map((rule) => rule.condition));
  return {
    bundle_id: header.bundle_id ?? 'unnamed',
    version: header.version ?? '0',
    strategy: header.merge_strategy ?? 'first_match',
    stopOn: new Set(header.stop_on ?? DEFAULT_STOP_ON),
    layers: compiled,
    askingRules: new Map(rules.flatMap((rule) => (rule.contentHash === undefined ? [] : [[`${rule.layer}/${rule.id}`, rule]]))),
    defaultRules: rules.filter((rule) => givesDefaults(rule)),
    fields,
    fieldsRead: fields.map((field) => `context.${field.name}`).sort(),
    readsRisk: fields.some(({ name }) => name.startsWith('risk.')),
    ruleCount: rules.length,
  };
}

/**
 * A rule that blocks whatever it matches gives no defaults, else one more refusing rule could supply what another one
 * requires.
 */
function givesDefaults({ effects, decision }: CompiledRule): boolean {
  return effects.defaults !== undefined && decision !== 'deny' && decision !== 'quarantine';
}

function* compileLayer(name: string, rules: readonly Rule[], closed: boolean): Sliced<CompiledLayer> {
  const sorted: CompiledRule[] = [];
  for (const rule of rules) {
    sorted.push(compileRule(rule));
    yield STEPS_OF_RULE;
  }
  sorted.sort(compareRules);
  const gate = GATE_CODES[name];
  const gates = closed || rules.some(makesAllowList);
  return {
    name,
    rules: sorted,
    index: indexRules(sorted.map((rule) => rule.condition)),
    gateCode: gates ? gate : undefined,
    lastEffectOnly: sorted.findLastIndex((rule) => rule.decision === undefined),
  };
}

/** Whether a rule makes its layer, if that gates, an allow-list (policy.md 3). */
export function makesAllowList(rule: Rule): boolean {
  return !rule.generated && allows(rule);
}

function allows({ effects: { decision } }: Rule): boolean {
  return decision !== undefined && permits(decision);
}

function compileRule(rule: Rule): CompiledRule {
  const { layer, id, level, priority, condition, effects } = rule;
  const refuses = effects.decision !== undefined && !permits(effects.decision);
  const matched = { layer, rule_id: id, level };
  return {
    layer,
    id,
    priority,
    decision: effects.decision,
    contentHash: effects.decision === 'require_approval' ? contentHashOf(rule.node) : undefined,
    matches: compilePredicate(condition, refuses),
    missingMark: refuses ? compileMissingMark(condition) : undefined,
    require: effects.require ?? [],
    effects,
    matched: Object.freeze(matched),
    matchedMissing: Object.freeze({ ...matched, missing_field: true }),
    condition,
    file: rule.place.file,
    line: rule.node.line,
    replaces: rule.replaces,
  };
}

/**
 * Priority descending, then the more restrictive decision, then id by code unit; never the order in the files
 * (policy.md 6).
 */
function compareRules(a: CompiledRule, b: CompiledRule): number {
  return b.priority - a.priority || rank(b) - rank(a) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function rank({ decision }: CompiledRule): number {
  return decision === undefined ? -1 : severityOf(decision);
}

function fieldsOf(conditions: readonly Condition[]): readonly Field[] {
  const fields = new Map<string, Field>();
  const visit = (condition: Condition): void => {
    if ('parts' in condition) condition.parts.forEach(visit);
    else if (!fields.has(condition.field.name)) fields.set(condition.field.name, condition.field);
  };
  conditions.forEach(visit);
  // In the order in which a record writes their values, so that none has to be sorted.
  return [...fields.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
