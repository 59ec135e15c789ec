import { GatewayError } from '../../base/lib/gateway-error.ts';
import { BUNDLE_SCHEMA } from '../../decide/policy/bundle.ts';
import { type LanguageOptions, loadPolicy } from '../../services/load-policy.ts';

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
 * Whether texts that load alone are small enough together, as each gateway of the org judges them: there the sum of their patterns would deny everything.
 * @throws GatewayError `invalid_policy` for that sum; what else is wrong between them is told at the gateway, as it may be put right here by the next change
 */
export async function loadedTogether({ bundle, org, node }: Together, language: LanguageOptions): Promise<void> {
  const overlays = {
    ...(org === undefined ? {} : { org: { text: org, file: 'org overlay' } }),
    ...(node === undefined ? {} : { node: { text: node, file: 'node overlay' } }),
  };
  try {
    const base = bundle === undefined ? NO_RULES : { text: bundle, file: 'bundle.yaml' };
    await loadPolicy({ bundle: base, overlays }, language, 'Bundle and overlays of the org do not load together');
  } catch (error) {
    if (error instanceof GatewayError && error.details?.some(({ code }) => code === 'patterns_too_large')) throw error;
  }
}
