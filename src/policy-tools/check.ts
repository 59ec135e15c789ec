import type { ErrorDetail } from '../base/lib/gateway-error.ts';
import { parseYaml, yamlMember } from '../base/lib/yaml.ts';
import { BUNDLE_SCHEMA, type PolicyText, RULE_FILE_SCHEMA } from '../decide/policy/bundle.ts';
import { compileRead, type PolicyInput, type PolicyOptions, readPolicy, textsOfLevel } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { type LintCode, lintPolicy } from '../decide/policy/lint.ts';
import { deniesAllMessage, type PassageOptions, whyNothingPasses } from '../decide/policy/refuses-all.ts';

/*
 * The room of the tools around the policy language: they judge texts, explain verdicts, compare bundles. Pure: whoever
 * calls has read the files.
 */

export interface Checked {
  /** Undefined when there are errors. */
  readonly policy: CompiledPolicy | undefined;
  readonly errors: readonly ErrorDetail[];
  readonly warnings: readonly ErrorDetail[];
  /**
   * Set for a policy by which nothing can be allowed any more, with the reason: by itself no mistake, since it may be
   * meant. Says nothing of a part, such as a rule file alone.
   */
  readonly deniesAll?: ErrorDetail;
}

/**
 * Compiles as the gateway does at start, at reload and for `PUT /v1/admin/policies`, and lints what compiled. Never
 * throws on any text.
 * @param options what a policy is held against that may let nothing pass: whether approvals are on, which hosts
 * connectors have
 */
export function checkPolicy(input: PolicyInput, options: PolicyOptions & PassageOptions = {}): Checked {
  const read = readPolicy(input, options);
  const { policy, errors } = compileRead(read);
  if (errors !== undefined) return { policy: undefined, errors, warnings: [] };
  const why = whyNothingPasses(policy, options);
  const checked = { policy, errors: [], warnings: lintPolicy(read, policy, options.connectorId) };
  return why === undefined ? checked : { ...checked, deniesAll: deniesAll(why, input, policy) };
}

function deniesAll(why: string, { bundle }: PolicyInput, { unusedFiles }: CompiledPolicy): ErrorDetail {
  const hint =
    unusedFiles.length > 0
      ? 'put the inline rules into a rule file of their own, and name that under files'
      : 'add a rule that allows what should pass, or take away what excludes it';
  return { path: '', message: deniesAllMessage(why, unusedFiles), file: bundle.file, code: 'denies_all' satisfies LintCode, hint };
}

/** All texts of a policy by the names that its problems use. */
export function textsOf({ bundle, files, addons, overlays, generated }: Omit<PolicyInput, 'tier'>): ReadonlyMap<string, string> {
  const texts = [bundle, ...(addons ?? []), ...textsOfLevel(overlays?.org), ...textsOfLevel(overlays?.node), ...(generated ?? [])];
  return new Map([...(files ?? []), ...texts.map(({ file, text }) => [file, text] as const)]);
}

/** Whether a text says of itself that it is a rule file. */
export function isRuleFile({ text, file }: PolicyText): boolean {
  const schema = yamlMember(parseYaml(text, file).root, 'schema');
  return schema?.kind === 'scalar' && schema.source === RULE_FILE_SCHEMA;
}

/** A rule file as the only add-on of a bundle that holds nothing else. */
export function aloneInABundle(ruleFile: PolicyText): Pick<PolicyInput, 'bundle' | 'addons'> {
  return { bundle: { text: `schema: ${BUNDLE_SCHEMA}\n`, file: '(bundle)' }, addons: [ruleFile] };
}
