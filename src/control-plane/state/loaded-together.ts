import { GatewayError } from '../../base/lib/gateway-error.ts';
import { BUNDLE_SCHEMA } from '../../decide/policy/bundle.ts';
import type { WrittenText } from '../../policy-tools/policy-change.ts';
import { type LanguageOptions, loadPolicy } from '../../services/policy/load-policy.ts';
import { overlayFile } from '../../services/policy/org-overlays.ts';
import { type PolicyTexts, type Weighed, type WeighedSide, weigh } from '../../services/policy/weigh-policy.ts';

/** A bundle that says nothing. */
export const NO_RULES: { readonly text: string; readonly file: string } = {
  text: JSON.stringify({ schema: BUNDLE_SCHEMA }),
  file: 'bundle.yaml',
};

/** What a gateway of an org lays over each other. */
export interface Together {
  readonly bundle?: string | undefined;
  readonly org?: string | undefined;
  readonly node?: string | undefined;
}

/**
 * Whether texts that load alone are small enough together, as each gateway of the org judges them: there the sum of
 * their patterns would deny everything.
 * @throws GatewayError `invalid_policy` for that sum; what else is wrong between them is told at the gateway, as it may
 * be put right here by the next change
 */
export async function loadedTogether(together: Together, language: LanguageOptions): Promise<void> {
  try {
    await loadPolicy(textsOf(together), language, 'Bundle and overlays of the org do not load together');
  } catch (error) {
    if (error instanceof GatewayError && error.details?.some(({ code }) => code === 'patterns_too_large')) throw error;
  }
}

function textsOf({ bundle, org, node }: Together): PolicyTexts {
  const overlays = {
    ...(org === undefined ? {} : { org: { text: org, file: overlayFile('org') } }),
    ...(node === undefined ? {} : { node: { text: node, file: overlayFile('node') } }),
  };
  return { bundle: bundle === undefined ? NO_RULES : { text: bundle, file: 'bundle.yaml' }, overlays };
}

/** What a change of one of the texts does at a gateway that has all of them (decision 5.10). */
export async function weighTogether(before: Together, after: Together, written: WrittenText, language: LanguageOptions): Promise<Weighed> {
  const sideOf = async (together: Together): Promise<WeighedSide> => {
    const texts = textsOf(together);
    return { texts, policy: await loadPolicy(texts, language, '').catch(() => undefined) };
  };
  return weigh(await sideOf(before), await sideOf(after), written, language);
}
