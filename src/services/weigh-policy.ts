import type { PolicyInput, ReadPolicy } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import type { Rule } from '../decide/policy/rule.ts';
import { comparePolicies, type WeighedChange } from '../policy-tools/policy-change.ts';
import { type RuleEdit, ruleEdits } from '../policy-tools/rule-edits.ts';
import { type LanguageOptions, readTexts } from './load-policy.ts';

/** The texts of a policy without the tier. */
export type PolicyTexts = Omit<PolicyInput, 'tier'>;

/** One side of a change of policy. */
export interface WeighedSide {
  readonly texts: PolicyTexts;
  /** Undefined of what does not load: everything is denied. */
  readonly policy: CompiledPolicy | undefined;
}

/** What a change of policy would do, or has done. */
export interface Weighed {
  readonly change: WeighedChange;
  readonly before: WeighedSide;
  readonly after: WeighedSide;
  /** What the texts say of themselves together. */
  readonly header: { readonly before: ReadPolicy['header']; readonly after: ReadPolicy['header'] };
  /** The rules of the text that is changed which it writes down differently, for the audit trail. */
  readonly edits: readonly RuleEdit[];
}

/** The rules of one overlay that was put. @param file as mistakes in it are said to be in */
export function ofFile(file: string): (rule: Rule) => boolean {
  return ({ place }) => place.file === file;
}

/** The rules of the bundle, its files and add-ons. */
export function ofBundle({ level }: Rule): boolean {
  return level === 'base';
}

/** Compares what counted with what will. Reads both in slices. @param isOfText tells the rules of the text that is changed */
export async function weigh(
  before: WeighedSide,
  after: WeighedSide,
  isOfText: (rule: Rule) => boolean,
  language: LanguageOptions,
): Promise<Weighed> {
  const was = await readTexts(before.texts, language);
  const is = await readTexts(after.texts, language);
  const change = comparePolicies({ read: was, policy: before.policy }, { read: is, policy: after.policy }, isOfText);
  return { change, before, after, header: { before: was.header, after: is.header }, edits: ruleEdits(was, is, isOfText) };
}

/** All rules: of a change of several texts. */
export function ofAll(): boolean {
  return true;
}

/** Told of what a change does before it is stored. @returns whether it is to be stored; throws when it is not meant */
export type AcceptWeighed = (weighed: Weighed) => boolean;
