import { compilePolicy, type PolicyInput, type PolicyOptions } from '../../../src/decide/policy/compile.ts';
import type { CompiledPolicy } from '../../../src/decide/policy/compiled.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import { plainCall } from '../../../src/decide/policy/given-facts.ts';

/** A plain chat call of workload `w1`; members of `changes` replace its own. */
export function someFacts(changes: Partial<Facts> = {}): Facts {
  return {
    ...plainCall(),
    org_id: 'acme',
    workload_id: 'w1',
    caller_ip: '10.1.2.3',
    params: { model: 'gpt-4o', messages: [{ role: 'user', content: 'secret prompt' }], max_tokens: 100 },
    header_names: new Set(['content-type', 'x-team']),
    ...changes,
  };
}

const NEUTRAL: Readonly<Record<string, string>> = { provider_a: 'openai', provider_b: 'anthropic' };
const KNOWN = ['openai', 'anthropic', 'gemini', 'generic_http'];

/** Compiles with every effect allowed and two neutral names known. */
export function compileAll(
  input: Partial<PolicyInput> & { readonly text: string },
  options: PolicyOptions = {},
): ReturnType<typeof compilePolicy> {
  const { text, ...rest } = input;
  const connectorId = (id: string) => NEUTRAL[id] ?? (KNOWN.includes(id) || id.startsWith('custom:') ? id : undefined);
  return compilePolicy(
    { bundle: { text, file: 'bundle.yaml' }, files: new Map(), tier: 'enterprise', ...rest },
    { connectorId, allowUnsupported: true, ...options },
  );
}

/** The compiled policy of a bundle that must load. */
export function policyOf(text: string): CompiledPolicy {
  const { policy, errors } = compileAll({ text });
  if (policy === undefined) throw new Error(`the bundle does not load: ${JSON.stringify(errors, null, 2)}\n${text}`);
  return policy;
}

/** A bundle of inline rules; YAML is a superset of JSON. */
export function bundleOf(layers: Readonly<Record<string, readonly unknown[]>>, evaluation: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ schema: 'gw.policy_bundle.v1', bundle_id: 'b', version: '1', evaluation, inline_rules: layers });
}
