import { type Decision, permits } from '../base/model/reason-codes.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { decide } from '../decide/policy/evaluate.ts';
import { factsOfEveryModel } from '../decide/policy/every-model.ts';
import type { Facts } from '../decide/policy/facts.ts';
import type { ReadCall } from '../decide/policy/given-facts.ts';
import { openOf, openRulesOf } from '../decide/policy/hidden.ts';
import type { Verdict } from '../decide/policy/verdict.ts';
import { isSameContent, type RecordedRequest, recordedRequest } from './recorded-request.ts';
import type { Paint } from './render-problem.ts';
import { seen, shown } from './render-suite.ts';

/** What one side says of a request. */
export interface Side {
  readonly decision: Decision;
  readonly reason_codes: readonly string[];
  readonly matched: readonly string[];
  readonly effects: Verdict['effects'];
}

export interface PolicyChange {
  readonly record_id: string;
  readonly old: Side;
  readonly new: Side;
}

/** A group of records that would change in the same way. */
export interface ChangeGroup {
  /** `allow -> deny`, or `allow, other effects`. */
  readonly change: string;
  readonly records: number;
  readonly examples: readonly PolicyChange[];
}

export interface PolicyDiff {
  /** All records that were read. */
  readonly records: number;
  /** Those that policy was not asked about. */
  readonly not_decided: number;
  readonly unchanged: number;
  readonly changed: number;
  /** Records that do not hold what a rule of one side reads. */
  readonly cannot_say: { readonly records: number; readonly fields: Readonly<Record<string, number>> };
  /**
   * Records that the old policy decided and that it decides otherwise when replayed: budgets, rate limits and the like
   * are not replayed.
   */
  readonly not_reproduced: number;
  readonly groups: readonly ChangeGroup[];
}

const EXAMPLES = 5;

/**
 * Replays records against two policies (decision 7.4). Feed it records one by one; it keeps counts and a few examples.
 */
export class PolicyComparison {
  readonly #readingOf: ((facts: Facts) => ReadCall) | undefined;
  readonly #hashOf: ((policy: CompiledPolicy) => string | undefined) | undefined;
  readonly #old: CompiledPolicy;
  readonly #new: CompiledPolicy;
  readonly #groups = new Map<string, { records: number; examples: PolicyChange[] }>();
  readonly #fields = new Map<string, number>();
  #records = 0;
  #notDecided = 0;
  #unchanged = 0;
  #cannotSay = 0;
  #notReproduced = 0;

  /**
   * @param readingOf how much the gateway understands of a call
   * @param hashOf the SHA-256 over the texts of a policy, as the gateway makes it, where that is known: two of one name
   * and version are told apart by it
   */
  constructor(
    before: CompiledPolicy,
    after: CompiledPolicy,
    readingOf?: (facts: Facts) => ReadCall,
    hashOf?: (policy: CompiledPolicy) => string | undefined,
  ) {
    this.#readingOf = readingOf;
    this.#hashOf = hashOf;
    this.#old = before;
    this.#new = after;
  }

  add(record: Readonly<Record<string, unknown>>): void {
    this.#records++;
    const request = recordedRequest(record, [this.#old, this.#new], this.#readingOf, this.#hashOf);
    if (request === undefined) {
      this.#notDecided++;
      return;
    }
    const before = replay(this.#old, request);
    const after = replay(this.#new, request);
    const unknown = new Set([...before.unknown, ...after.unknown]);
    if (unknown.size > 0) {
      this.#cannotSay++;
      for (const field of unknown) this.#fields.set(field, (this.#fields.get(field) ?? 0) + 1);
      return;
    }
    if (this.#isByOld(request) && request.decision !== before.verdict.decision && request.decision !== 'error') this.#notReproduced++;
    this.#compare(request.recordId, sideOf(before.verdict), sideOf(after.verdict));
  }

  result(): PolicyDiff {
    const groups = [...this.#groups].map(([change, { records, examples }]) => ({ change, records, examples }));
    return {
      records: this.#records,
      not_decided: this.#notDecided,
      unchanged: this.#unchanged,
      changed: groups.reduce((sum, { records }) => sum + records, 0),
      cannot_say: { records: this.#cannotSay, fields: Object.fromEntries([...this.#fields].sort((a, b) => b[1] - a[1])) },
      not_reproduced: this.#notReproduced,
      groups: groups.sort((a, b) => b.records - a.records || (a.change < b.change ? -1 : 1)),
    };
  }

  #isByOld({ bundleId, version, contentHash }: RecordedRequest): boolean {
    const old = this.#old;
    return bundleId === old.bundle_id && version === old.version && isSameContent(contentHash, this.#hashOf?.(old)) !== false;
  }

  #compare(recordId: string, before: Side, after: Side): void {
    const change = changeOf(before, after);
    if (change === undefined) {
      this.#unchanged++;
      return;
    }
    const group = this.#groups.get(change) ?? { records: 0, examples: [] };
    this.#groups.set(change, group);
    group.records++;
    if (group.examples.length < EXAMPLES) group.examples.push({ record_id: recordId, old: before, new: after });
  }
}

interface Replayed {
  readonly verdict: Verdict;
  /** Fields that the record does not hold and that could turn the verdict. */
  readonly unknown: readonly string[];
}

/** The request behind a record, decided again by a policy. */
export function replay(policy: CompiledPolicy, request: RecordedRequest): Replayed {
  const { facts, isKnown } = request;
  const verdict = decide(policy, facts);
  const end = policy.layers.findIndex((layer) => layer.name === verdict.stopped_at);
  const asked = end === -1 ? policy.layers : policy.layers.slice(0, end + 1);
  const open = factsOfEveryModel(facts).flatMap((one) => [
    ...openOf(policy.defaultRules, one, isKnown),
    ...asked.flatMap((layer) => openRulesOf(policy, layer, one, isKnown)),
  ]);
  return { verdict, unknown: open.flatMap(({ fields }) => fields) };
}

/** What a verdict says of a request. */
export function sideOf({ decision, reason_codes, matched, effects }: Verdict): Side {
  return { decision, reason_codes, matched: matched.map(({ layer, rule_id }) => `${layer}/${rule_id}`), effects };
}

/** What changes for the caller; another matched rule with the same outcome is no change. */
function changeOf(before: Side, after: Side): string | undefined {
  if (before.decision !== after.decision) return `${before.decision} -> ${after.decision}`;
  if (permits(before.decision)) {
    const effects = Object.keys({ ...before.effects, ...after.effects }).filter((name) => !sameEffect(name, before, after));
    return effects.length === 0 ? undefined : `${before.decision}, other ${effects.join(', ')}`;
  }
  return before.reason_codes.join() === after.reason_codes.join() ? undefined : `${before.decision}, other reason codes`;
}

function sameEffect(name: string, before: Side, after: Side): boolean {
  const effect = (side: Side) => JSON.stringify(Object.entries(side.effects).find(([key]) => key === name)?.[1]);
  return effect(before) === effect(after);
}

/** Counts, each kind of change with a few records that show it, and what could not be said. */
export function renderDiff(diff: PolicyDiff, paint: Paint): string {
  const lines: string[] = [];
  for (const { change, records, examples } of diff.groups) {
    lines.push(`${paint.bold(`${records} x ${seen(change)}`)}`);
    for (const example of examples) lines.push(...exampleLines(example, paint));
    if (records > examples.length) lines.push(paint.dim(`    and ${records - examples.length} more`));
    lines.push('');
  }
  const { records, changed, unchanged, cannot_say: open, not_decided: notDecided, not_reproduced: notReproduced } = diff;
  const total = `${records} ${records === 1 ? 'record' : 'records'}: ${changed} would change, ${unchanged} would not`;
  lines.push(changed === 0 ? paint.green(total) : paint.yellow(total));
  if (open.records > 0) {
    const fields = Object.entries(open.fields).map(([field, count]) => `${seen(field)} (${count})`);
    lines.push(`${open.records} cannot be judged: rules read what these records do not hold: ${fields.join(', ')}`);
  }
  if (notDecided > 0) lines.push(`${notDecided} were answered before policy was asked`);
  if (notReproduced > 0)
    lines.push(`${notReproduced} were decided otherwise than the old policy decides now: budgets and rate limits are not replayed`);
  return `${lines.join('\n')}\n`;
}

function exampleLines({ record_id: id, old: before, new: after }: PolicyChange, paint: Paint): readonly string[] {
  return [`    ${seen(id)}`, `      ${paint.red(`- ${sideText(before)}`)}`, `      ${paint.green(`+ ${sideText(after)}`)}`];
}

/** One side in a line: its decision, reason codes and rules, and the effects that it states. */
export function sideText({
  decision,
  reason_codes: codes,
  matched,
  effects,
}: Omit<Side, 'decision' | 'effects'> & { readonly decision: string; readonly effects: object }): string {
  const stated = Object.entries(effects).filter(
    ([, value]: [string, unknown]) => JSON.stringify(value) !== '[]' && JSON.stringify(value) !== '{}',
  );
  const parts = [
    seen(decision),
    codes.length === 0 ? '' : shown(codes),
    matched.length === 0 ? 'by no rule' : `by ${matched.map(seen).join(', ')}`,
  ];
  return [...parts, ...stated.map(([name, value]) => `${name}: ${shown(value)}`)].filter((part) => part !== '').join('  ');
}
