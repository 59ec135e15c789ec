import { GatewayError } from '../base/lib/gateway-error.ts';
import { inSlices } from '../base/lib/slices.ts';
import { parseYaml } from '../base/lib/yaml.ts';
import { readYaml } from '../base/lib/yaml-thread.ts';
import type { PlanTier } from '../base/model/plan-tier.ts';
import type { ParseText } from '../decide/policy/bundle.ts';
import { compiling, type PolicyInput } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { textsOf } from '../policy-tools/check.ts';
import { renderProblems } from '../policy-tools/render-problem.ts';

/** What every bundle of this gateway is compiled with. */
export interface LanguageOptions {
  readonly tier: PlanTier;
  /** Turns neutral names and aliases into canonical connector ids; undefined for an unknown one. Default: ids are taken as they are. */
  readonly connectorId?: ((text: string) => string | undefined) | undefined;
}

/**
 * Compiles in slices, so that others are served meanwhile, or says for a person what is wrong.
 * @throws GatewayError `invalid_policy` with every mistake in `details`; the message begins with `what` and shows the first of them as `gw policy check` does
 */
export async function loadPolicy(
  texts: Omit<PolicyInput, 'tier'>,
  { tier, connectorId }: LanguageOptions,
  what: string,
): Promise<CompiledPolicy> {
  const input = { ...texts, tier };
  const byName = textsOf(input);
  const parse = await parsedBefore(byName);
  const { policy, errors } = await inSlices(compiling(input, { parse, ...(connectorId && { connectorId }) }));
  if (errors === undefined) return policy;
  throw new GatewayError('invalid_policy', `${what}:\n\n${renderProblems(errors, byName)}`, { details: errors, verbose: true });
}

/** Gives out the trees of texts that were parsed in advance, where they hold nobody up. */
async function parsedBefore(texts: ReadonlyMap<string, string>): Promise<ParseText> {
  const named = [...texts].map(([file, text]) => ({ file, text }));
  const trees = await readYaml(named);
  const byName = new Map(named.map(({ file }, i) => [file, trees[i]]));
  return (text, file) => byName.get(file) ?? parseYaml(text, file);
}
