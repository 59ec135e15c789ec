import { GatewayError } from '../../base/lib/gateway-error.ts';
import { inSlices } from '../../base/lib/slices.ts';
import { Turn } from '../../base/lib/turn.ts';
import { type ParsedYaml, parseYaml } from '../../base/lib/yaml.ts';
import { readYaml } from '../../base/lib/yaml-thread.ts';
import type { PlanTier } from '../../base/model/org.ts';
import type { ParseText } from '../../decide/policy/bundle.ts';
import { compiling, type PolicyInput, type ReadPolicy, readingPolicy } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { type Checked, checkPolicy, textsOf } from '../../policy-tools/check.ts';
import { renderProblems } from '../../policy-tools/render-problem.ts';

/** What every bundle of this gateway is compiled with. */
export interface LanguageOptions {
  readonly tier: PlanTier;
  /**
   * Turns neutral names and aliases into canonical connector ids; undefined for an unknown one. Default: ids are taken
   * as they are.
   */
  readonly connectorId?: ((text: string) => string | undefined) | undefined;
  /**
   * Where the policies of many orgs over one bundle are compiled: the trees of the texts of the bundle, by text, so
   * that these are read once. It is filled here.
   */
  readonly bundleTrees?: Map<string, ParsedYaml>;
}

/** One policy at a time (`POLICY_BOUNDS.compiling`). */
const compilations = new Turn();

/**
 * Compiles in slices and one policy after the other, so that others are served meanwhile, or says for a person what is
 * wrong.
 * @throws GatewayError `invalid_policy` with every mistake in `details`; the message begins with `what` and shows the
 * first of them as `gw policy check` does
 */
export function loadPolicy(texts: Omit<PolicyInput, 'tier'>, language: LanguageOptions, what: string): Promise<CompiledPolicy> {
  return compilations.take(() => loadInTurn(texts, language, what));
}

async function loadInTurn(
  texts: Omit<PolicyInput, 'tier'>,
  { tier, connectorId, bundleTrees }: LanguageOptions,
  what: string,
): Promise<CompiledPolicy> {
  const input = { ...texts, tier };
  const byName = textsOf(input);
  const { bundle, files, addons } = input;
  const parse = await parsedBefore(
    byName,
    bundleTrees && { trees: bundleTrees, texts: textsOf({ bundle, ...(files && { files }), ...(addons && { addons }) }) },
  );
  const { policy, errors } = await inSlices(compiling(input, { parse, ...(connectorId && { connectorId }) }));
  if (errors === undefined) return policy;
  throw new GatewayError('invalid_policy', `${what}:\n\n${renderProblems(errors, byName)}`, { details: errors, verbose: true });
}

/**
 * What texts say, in slices as {@link loadPolicy}, without compiling them; of texts with mistakes what could be read.
 * Never rejects for what they say.
 */
export function readTexts(texts: Omit<PolicyInput, 'tier'>, { tier, connectorId }: LanguageOptions): Promise<ReadPolicy> {
  return compilations.take(async () => {
    const input = { ...texts, tier };
    const parse = await parsedBefore(textsOf(input), undefined);
    return inSlices(readingPolicy(input, { parse, ...(connectorId && { connectorId }) }));
  });
}

/**
 * Errors and warnings as `gw policy check` gives them. Compiles at once: for texts of a bounded length
 * (`POLICY_BOUNDS.checked`).
 */
export function checkTexts(texts: Omit<PolicyInput, 'tier'>, { tier, connectorId }: LanguageOptions): Promise<Checked> {
  return compilations.take(async () => {
    const input = { ...texts, tier };
    const parse = await parsedBefore(textsOf(input), undefined);
    return checkPolicy(input, { parse, ...(connectorId && { connectorId }) });
  });
}

/** What is read once for many. */
interface Kept {
  readonly trees: Map<string, ParsedYaml>;
  /** By file; of these alone the trees are kept. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Gives out the trees of texts that were parsed in advance, where they hold nobody up. */
async function parsedBefore(texts: ReadonlyMap<string, string>, kept: Kept | undefined): Promise<ParseText> {
  const unread = [...texts].filter(([, text]) => kept?.trees.has(text) !== true).map(([file, text]) => ({ file, text }));
  const trees = await readYaml(unread);
  const byName = new Map(unread.map(({ file }, i) => [file, trees[i]]));
  for (const [file, text] of kept?.texts ?? []) {
    const tree = byName.get(file);
    if (tree !== undefined && tree.errors.length === 0) kept?.trees.set(text, tree);
  }
  return (text, file) => kept?.trees.get(text) ?? byName.get(file) ?? parseYaml(text, file);
}
