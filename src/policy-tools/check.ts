import type { ErrorDetail } from '../base/lib/gateway-error.ts';
import { parseYaml, yamlMember } from '../base/lib/yaml.ts';
import { BUNDLE_SCHEMA, type PolicyText, RULE_FILE_SCHEMA } from '../decide/policy/bundle.ts';
import { compileRead, type PolicyInput, type PolicyOptions, readPolicy, textsOfLevel } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { lintPolicy } from '../decide/policy/lint.ts';

/*
 * The room of the tools around the policy language: they judge texts, explain verdicts, compare bundles. Pure: whoever calls has read the files.
 */

export interface Checked {
  /** Undefined when there are errors. */
  readonly policy: CompiledPolicy | undefined;
  readonly errors: readonly ErrorDetail[];
  readonly warnings: readonly ErrorDetail[];
}

/** Compiles as the gateway does at start, at reload and for `PUT /v1/admin/policies`, and lints what compiled. Never throws on any text. */
export function checkPolicy(input: PolicyInput, options: PolicyOptions = {}): Checked {
  const read = readPolicy(input, options);
  const { policy, errors } = compileRead(read);
  if (errors !== undefined) return { policy: undefined, errors, warnings: [] };
  return { policy, errors: [], warnings: lintPolicy(read, policy) };
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
