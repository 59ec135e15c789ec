import type { YamlMap } from '../base/lib/yaml.ts';
import { type Decision, permits } from '../base/model/reason-codes.ts';
import type { Layers, ReadPolicy } from '../decide/policy/compile.ts';
import type { CompiledLayer, CompiledPolicy } from '../decide/policy/compiled.ts';
import { GATE_CODES } from '../decide/policy/layers.ts';
import { type PassageOptions, refusesAll, whyNothingPasses } from '../decide/policy/refuses-all.ts';
import type { Rule } from '../decide/policy/rule.ts';
import { contentHashOf } from '../decide/policy/rule.ts';
import type { Level } from '../decide/policy/verdict.ts';

/** A rule, and where it stands. */
export interface RuleAt {
  readonly layer: string;
  readonly rule_id: string;
  readonly level: Level;
  readonly file: string;
  readonly line: number;
  readonly decision?: Decision;
}

/** A rule that counted and counts no longer, or stood in the text and does no longer. */
export interface LostRule extends RuleAt {
  /** `left_out`: the new text does not have it; `disabled`: it is taken away by `disabled: true`. */
  readonly because: 'left_out' | 'disabled';
  /** What counts in its place: a rule of the same layer and id of another level. */
  readonly instead?: RuleAt;
}

/** A layer that had an opinion about what it names alone, and now denies what it does not allow. */
export interface NewAllowList {
  readonly layer: string;
  /**
   * Rules that allow there now; what none of them matches is denied. Empty: the layer is written down without a rule,
   * and denies everything.
   */
  readonly allowed_by: readonly string[];
  /** Reason code of what is denied. */
  readonly reason_code: string;
  readonly message: string;
}

/** What becomes of a policy by a change of one of its texts. */
export interface WeighedChange {
  readonly added: readonly RuleAt[];
  readonly changed: readonly RuleAt[];
  readonly lost: readonly LostRule[];
  readonly new_allow_lists: readonly NewAllowList[];
  /** Layers that denied what they did not allow, and no longer do. */
  readonly no_longer_allow_lists: readonly string[];
  /** Members of the header that say something else now. */
  readonly header: readonly string[];
  /**
   * No call can be let through by what comes of it: which was not so before, or is so of a whole policy that was
   * written.
   */
  readonly denies_all: boolean;
  /** Why, as `gw policy check` says it; undefined also where what comes of the change does not load. */
  readonly why_denies_all: string | undefined;
}

/** The text that a change writes. */
export interface WrittenText {
  /** Tells its rules. */
  readonly has: (rule: Rule) => boolean;
  /**
   * It is the policy, and not a part that is laid over one: that a call can be let through is for its writer to see to.
   */
  readonly isWhole: boolean;
}

/** One side of a change; `policy` is missing of what did not load. */
export interface ReadSide {
  readonly read: Pick<ReadPolicy, 'levels' | 'header' | 'disabling'>;
  readonly policy: CompiledPolicy | undefined;
}

/**
 * Compares two policies of which one text, or the bundle with its files, is another.
 * @param passage by what it is judged that nothing can be let through
 */
export function comparePolicies(
  before: ReadSide,
  after: ReadSide,
  { has: isOfText, isWhole }: WrittenText,
  passage: PassageOptions = {},
): WeighedChange {
  const was = effectiveOf(before.read);
  const is = effectiveOf(after.read);
  const stood = writtenIn(before.read, isOfText);
  const stands = writtenIn(after.read, isOfText);
  const lost = new Map<string, LostRule>();
  for (const [name, rule] of stood) {
    if (stands.has(name)) continue;
    const instead = is.get(name);
    lost.set(name, { ...placeOf(rule), because: 'left_out', ...(instead === undefined ? {} : { instead: placeOf(instead) }) });
  }
  for (const [name, rule] of was) {
    if (!is.has(name) && !lost.has(name)) lost.set(name, { ...placeOf(rule), because: stands.has(name) ? 'disabled' : 'left_out' });
  }
  const others = [...is].filter(([name]) => !lost.has(name));
  return {
    added: others.filter(([name]) => !was.has(name)).map(([, rule]) => placeOf(rule)),
    changed: others.filter(([name, rule]) => differs(was.get(name), rule, isOfText)).map(([, rule]) => placeOf(rule)),
    lost: [...lost.values()],
    ...gatesOf(before.policy, after.policy, passage),
    header: headerChanges(before.read.header, after.read.header),
    denies_all: deniesAll(after.policy, passage) && (isWhole || !deniesAll(before.policy, passage)),
    why_denies_all: after.policy && whyNothingPasses(after.policy, passage),
  };
}

/** What does not load denies all. */
function deniesAll(policy: CompiledPolicy | undefined, passage: PassageOptions): boolean {
  return policy === undefined || refusesAll(policy, passage);
}

/**
 * Whether a change takes away more than its writer has named: rules that its text leaves out, or what a new allow-list
 * denies.
 */
export function losesUnasked(change: WeighedChange, named: ReadonlySet<string> = new Set()): boolean {
  return change.new_allow_lists.length > 0 || change.denies_all || lostUnasked(change, named).length > 0;
}

/** Rules that a text leaves out and nobody has named (`layer/id`). */
export function lostUnasked({ lost }: WeighedChange, named: ReadonlySet<string> = new Set()): readonly LostRule[] {
  return lost.filter(({ because, layer, rule_id }) => because === 'left_out' && !named.has(`${layer}/${rule_id}`));
}

function effectiveOf({ levels }: Pick<ReadPolicy, 'levels'>): ReadonlyMap<string, Rule> {
  return namedIn(levels.at(-1) ?? new Map());
}

function namedIn(layers: Layers): Map<string, Rule> {
  return new Map([...layers.values()].flatMap((rules) => [...rules.values()].map((rule) => [`${rule.layer}/${rule.id}`, rule] as const)));
}

/** Rules that stand in a text, also those that another level has replaced, and those that take others away. */
function writtenIn({ levels, disabling }: ReadSide['read'], isOfText: (rule: Rule) => boolean): ReadonlyMap<string, Rule> {
  const written = new Map<string, Rule>();
  for (const level of levels) for (const [name, rule] of namedIn(level)) if (isOfText(rule)) written.set(name, rule);
  for (const rule of disabling) if (isOfText(rule)) written.set(`${rule.layer}/${rule.id}`, rule);
  return written;
}

/** Rules of other texts are the same as before. */
function differs(before: Rule | undefined, after: Rule, isOfText: (rule: Rule) => boolean): boolean {
  if (before === undefined || !(isOfText(before) || isOfText(after))) return false;
  return before.level !== after.level || hashOf(before.node) !== hashOf(after.node);
}

const hashes = new WeakMap<YamlMap, string>();

function hashOf(node: YamlMap): string {
  const known = hashes.get(node) ?? contentHashOf(node);
  hashes.set(node, known);
  return known;
}

function placeOf({ layer, id, level, place, node, effects: { decision } }: Rule): RuleAt {
  return { layer, rule_id: id, level, file: place.file, line: node.line, ...(decision === undefined ? {} : { decision }) };
}

function gatesOf(
  before: CompiledPolicy | undefined,
  after: CompiledPolicy | undefined,
  passage: PassageOptions,
): Pick<WeighedChange, 'new_allow_lists' | 'no_longer_allow_lists'> {
  if (before === undefined || after === undefined) return { new_allow_lists: [], no_longer_allow_lists: [] };
  const gates = ({ layers }: CompiledPolicy) => layers.filter(({ gateCode }) => gateCode !== undefined);
  const gated = new Set(gates(before).map(({ name }) => name));
  const now = new Set(gates(after).map(({ name }) => name));
  return {
    // Where nothing could be let through before, none of them denies what was not denied.
    new_allow_lists: refusesAll(before, passage)
      ? []
      : gates(after)
          .filter(({ name }) => !gated.has(name))
          .map(allowList),
    no_longer_allow_lists: [...gated].filter((name) => !now.has(name)),
  };
}

function allowList({ name, rules, gateCode }: CompiledLayer): NewAllowList {
  const allowedBy = rules.filter(({ decision }) => decision !== undefined && permits(decision)).map(({ id }) => `${name}/${id}`);
  const code = gateCode ?? GATE_CODES[name] ?? '';
  const message =
    allowedBy.length === 0
      ? `the layer ${name} is written down without a rule that allows: it denies every call (${code}), and denied none before`
      : `the layer ${name} turns into an allow-list: every call that ${allowedBy.join(', ')} ${allowedBy.length === 1 ? 'does' : 'do'} not match is denied (${code}); until now the layer denied only what its rules name`;
  return { layer: name, allowed_by: allowedBy, reason_code: code, message };
}

function headerChanges(before: ReadPolicy['header'], after: ReadPolicy['header']): readonly string[] {
  const names = ['bundle_id', 'version', 'merge_strategy', 'stop_on'] as const;
  return names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}
