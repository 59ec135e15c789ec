import { PLAIN_READING } from '../../base/catalogue/reading.ts';
import { permits } from '../../base/model/reason-codes.ts';
import type { MergeStrategy } from './bundle.ts';
import type { CompiledLayer, CompiledRule } from './compiled.ts';
import type { Condition } from './condition.ts';
import { holdsIfKnown } from './condition-logic.ts';
import type { Facts } from './facts.ts';
import { type Field, type FieldType, isOneText } from './fields.ts';
import { giveFacts } from './given-facts.ts';
import type { Literal } from './literals.ts';

/*
 * Whether layers leave nothing of what other layers allow. Each way to be allowed is tried: one allowing rule of each
 * allow-list, with one of the values that these ask for. A way is shut only where it certainly is, whatever else the
 * call has; so "nothing passes" is proved, and "something may" is not.
 */

/** What counts as letting through and as refusing. */
export interface Passage {
  readonly letsThrough: (rule: CompiledRule) => boolean;
  readonly refuses: (rule: CompiledRule) => boolean;
  readonly strategy: MergeStrategy;
  readonly covers: ((connectorId: string, host: string) => boolean | undefined) | undefined;
}

export interface Contradiction {
  /** The allow-lists that exclude each other. */
  readonly layers: readonly string[];
  /** A rule that refuses what they allow together, if one does. */
  readonly rule: CompiledRule | undefined;
}

/**
 * Rules that are asked in all ways together, some 0.1 s; of a policy that takes more it is not said that nothing
 * passes.
 */
const MOST_STEPS = 50_000;
/** A condition of more alternatives is taken as one that may hold. */
const MOST_ALTERNATIVES = 32;
/** Fields of which a call has one value, which a rule can name. */
const SINGLE: ReadonlySet<FieldType> = new Set<FieldType>(['text', 'host', 'method', 'enum', 'connector']);

type Values = ReadonlyMap<string, { readonly field: Field; readonly literals: readonly Literal[] }>;
const NO_VALUES: Values = new Map();

/**
 * How layers contradict each other, so that nothing passes; undefined where something may.
 * @param reached the layers that every request comes to
 */
export function contradictionOf(
  reached: readonly CompiledLayer[],
  all: readonly CompiledLayer[],
  passage: Passage,
): Contradiction | undefined {
  const gates = reached.filter(({ gateCode }) => gateCode !== undefined);
  // Without an allow-list any rule that allows will do, wherever it stands.
  const choices = gates.length > 0 ? gates.map(({ rules }) => rules) : [all.flatMap(({ rules }) => rules)];
  const search = new Search(reached, passage);
  const found = search.isOpen(
    choices.map((rules) => rules.filter(passage.letsThrough)),
    NO_VALUES,
    [],
  );
  return found ? undefined : { layers: gates.map(({ name }) => name), rule: search.refusing };
}

class Search {
  /** A rule that has shut a way. */
  refusing: CompiledRule | undefined;
  readonly #layers: readonly CompiledLayer[];
  readonly #passage: Passage;
  #left = MOST_STEPS;

  constructor(layers: readonly CompiledLayer[], passage: Passage) {
    this.#layers = layers;
    this.#passage = passage;
  }

  /** Whether a call may match one rule of each of the lists, beside what is chosen already. */
  isOpen([rules, ...rest]: readonly (readonly CompiledRule[])[], values: Values, chosen: readonly CompiledRule[]): boolean {
    if (rules === undefined) return this.#mayPass(values, chosen);
    for (const rule of rules) {
      for (const asked of alternativesOf(rule.condition)) {
        const both = together(values, asked);
        if (both !== undefined && this.isOpen(rest, both, [...chosen, rule])) return true;
        if (--this.#left <= 0) return true;
      }
    }
    return false;
  }

  #mayPass(values: Values, chosen: readonly CompiledRule[]): boolean {
    for (const given of combinations([...values.values()])) {
      if (--this.#left <= 0) return true;
      if (this.#isOpenWith(given, chosen)) return true;
    }
    return false;
  }

  #isOpenWith(given: readonly Given[], chosen: readonly CompiledRule[]): boolean {
    const literalOf = (name: string) => given.find(({ field }) => field.name === name)?.literal;
    const [connector, host] = [literalOf('connector.id'), literalOf('action.target_host')];
    if (typeof connector === 'string' && typeof host === 'string' && this.#passage.covers?.(connector, host) === false) return false;
    const names = new Set(given.map(({ field }) => field.name));
    const isKnown = ({ name }: Field): boolean => names.has(name);
    // A provider may ignore case: what refuses has to do so in either reading.
    const readings = [factsOf(given, false), factsOf(given, true)];
    const holds = ({ condition, decision }: CompiledRule): readonly (boolean | undefined)[] =>
      readings.map((facts) => holdsIfKnown(condition, decision !== undefined && !permits(decision), facts, isKnown));
    const isNever = (rule: CompiledRule): boolean => holds(rule).every((held) => held === false);
    if (chosen.some(isNever)) return false;
    const refusal = this.#layers.map((layer) => this.#refusalOf(layer, holds)).find((rule) => rule !== undefined);
    this.refusing ??= refusal;
    // What was not looked at to its end may be open.
    return refusal === undefined || this.#left <= 0;
  }

  /** The rule by which a layer certainly refuses. */
  #refusalOf({ rules }: CompiledLayer, holds: (rule: CompiledRule) => readonly (boolean | undefined)[]): CompiledRule | undefined {
    const { letsThrough, refuses, strategy } = this.#passage;
    for (const rule of rules) {
      this.#left -= 1;
      if (rule.decision === undefined) continue;
      const held = holds(rule);
      if (refuses(rule) && held.every((one) => one === true)) return rule;
      if (letsThrough(rule) && strategy !== 'strict' && held.some((one) => one !== false)) return undefined;
    }
    return undefined;
  }
}

/** What a condition asks of fields that have one value, for each way in which it can hold. */
function alternativesOf(condition: Condition): readonly Values[] {
  if (condition.kind === 'exists') return [NO_VALUES];
  if (condition.kind === 'value') {
    const { field, negated, compiled } = condition;
    const isSingle = SINGLE.has(field.type) || isOneText(field);
    if (negated || compiled.equalTo === undefined || !isSingle) return [NO_VALUES];
    return [new Map([[field.name, { field, literals: compiled.equalTo }]])];
  }
  if (condition.kind === 'any') {
    const ways = condition.parts.flatMap(alternativesOf);
    return ways.length > MOST_ALTERNATIVES ? [NO_VALUES] : ways;
  }
  let ways: readonly Values[] = [NO_VALUES];
  for (const part of condition.parts) {
    const more = alternativesOf(part);
    if (ways.length * more.length > MOST_ALTERNATIVES) continue;
    ways = ways.flatMap((way) => more.flatMap((one) => together(way, one) ?? []));
  }
  return ways;
}

/** What both ask; undefined where no value is left of a field. */
function together(first: Values, second: Values): Values | undefined {
  if (second.size === 0) return first;
  const both = new Map(first);
  for (const [name, asked] of second) {
    const before = both.get(name)?.literals;
    const literals = before === undefined ? asked.literals : asked.literals.filter((one) => before.some((other) => isSame(one, other)));
    if (literals.length === 0) return undefined;
    both.set(name, { field: asked.field, literals });
  }
  return both;
}

/** Also in another case, which a provider may ignore. */
function isSame(first: Literal, second: Literal): boolean {
  if (typeof first !== 'string' || typeof second !== 'string') return first === second;
  return first.toLowerCase() === second.toLowerCase();
}

interface Given {
  readonly field: Field;
  readonly literal: Literal;
}

/** Each way to give each field one of its values. */
function* combinations([first, ...rest]: readonly { readonly field: Field; readonly literals: readonly Literal[] }[]): Generator<
  readonly Given[]
> {
  if (first === undefined) {
    yield [];
    return;
  }
  for (const others of combinations(rest)) for (const literal of first.literals) yield [{ field: first.field, literal }, ...others];
}

function factsOf(given: readonly Given[], ignoresCase: boolean): Facts {
  const reading = ignoresCase ? { ...PLAIN_READING, foldsModel: true, foldsPath: true } : PLAIN_READING;
  const facts: Facts = { ...BAREST, reading };
  for (const { field, literal } of given) {
    const folds =
      ignoresCase && typeof literal === 'string' && (field.name === 'action.params.model' || field.name === 'action.target_path');
    giveFacts(facts, { [field.name]: folds ? literal.toLowerCase() : literal });
  }
  return facts;
}

/** A request of which only what every request has is known. */
export const BAREST: Facts = {
  org_id: '-',
  workload_id: '-',
  caller_id: undefined,
  caller_ip: undefined,
  connection_type: 'direct_api',
  traffic_class: 'developer',
  time: 0,
  purpose: undefined,
  labels: {},
  action_type: '-',
  action_method: '-',
  target_host: '-',
  target_path: '-',
  params: {},
  models: undefined,
  further: undefined,
  stream: false,
  reading: PLAIN_READING,
  header_names: new Set(),
  attribution: {},
  org_attribution: undefined,
  estimates: { tokens_in: 0, tokens_out_max: 0, cost_pico: 0n },
  risk: undefined,
  connector_id: undefined,
  credential_id: undefined,
  candidates: { connectors: [], credentials: [] },
  delegation: undefined,
  approved: false,
};

/** Whether a request can be without the field. */
export function isOptional(field: Field): boolean {
  return field.get(BAREST) === undefined;
}
