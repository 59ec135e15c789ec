import type { PolicyInput, ReadPolicy } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import { comparePolicies, type WeighedChange, type WrittenText } from '../../policy-tools/policy-change.ts';
import { type RuleEdit, ruleEdits } from '../../policy-tools/rule-edits.ts';
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

/** One overlay that was put. @param file as mistakes in it are said to be in */
export function overlayIn(file: string): WrittenText {
  return { has: ({ place }) => place.file === file, isWhole: false };
}

/** The bundle, with its files and add-ons. */
export const WHOLE_BUNDLE: WrittenText = { has: ({ level }) => level === 'base', isWhole: true };

/** What two policies are compared with. */
export interface WeighOptions extends LanguageOptions {
  readonly passage?: PassageOptions;
}

/** All rules: of a change of several texts. */
export const EVERY_TEXT: WrittenText = { has: () => true, isWhole: true };

/** Compares what counted with what will. Reads both in slices. @param written the text that is changed */
export async function weigh(before: WeighedSide, after: WeighedSide, written: WrittenText, options: WeighOptions): Promise<Weighed> {
  const was = await readTexts(before.texts, options);
  const is = await readTexts(after.texts, options);
  const change = comparePolicies({ read: was, policy: before.policy }, { read: is, policy: after.policy }, written, options.passage);
  return { change, before, after, header: { before: was.header, after: is.header }, edits: ruleEdits(was, is, written.has) };
}

/** Told of what a change does before it is stored. @returns whether it is to be stored; throws when it is not meant */
export type AcceptWeighed = (weighed: Weighed) => boolean;
