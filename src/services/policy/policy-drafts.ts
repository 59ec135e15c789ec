import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { type Checked, textsOf } from '../../policy-tools/check.ts';
import { type Base, textsOfOrg } from './active-policy.ts';
import { checkTexts, loadPolicy } from './load-policy.ts';
import type { TrialGround } from './overlay-trial.ts';
import { readSuites } from './policy-preview.ts';
import type { PolicyTexts } from './weigh-policy.ts';

/** A text that nobody has put: a bundle, or an overlay of the org or of this node. */
export interface PolicyDraft {
  readonly level: 'base' | 'org' | 'node';
  readonly text: string;
}

/** How mistakes in a draft of a bundle are told. */
export const DRAFT_BUNDLE = 'bundle_yaml';

/**
 * What is asked of texts that are not in force: what they would be judged with, what is wrong with them. Changes
 * nothing.
 */
export class PolicyDrafts {
  readonly #ground: () => TrialGround;
  readonly #testsIn: () => string | undefined;

  /** @param testsIn the policies folder; undefined where the policy comes from a control plane */
  constructor(ground: () => TrialGround, testsIn: () => string | undefined) {
    this.#ground = ground;
    this.#testsIn = testsIn;
  }

  /** The texts that the requests of an org are judged by here; with a draft, in the place of what it is a draft of. */
  texts(orgId: string, draft?: PolicyDraft): PolicyTexts {
    const {
      base,
      overlays,
      options: { nodeId, clock },
    } = this.#ground();
    if (draft === undefined) return textsOfOrg(base, overlays.layers(orgId));
    const { level, text } = draft;
    if (level === 'base') {
      const texts = { bundle: { text, file: DRAFT_BUNDLE }, ...overlaysOfFolder(base) };
      return textsOfOrg({ texts }, overlays.layers(orgId));
    }
    const place = { org_id: orgId, level, ...(level === 'node' ? { node_id: nodeId } : {}) };
    return textsOfOrg(base, overlays.layers(orgId, { overlay: { ...place, bundle_yaml: text, put_at: clock.now() } }));
  }

  /** Compiles texts. @throws GatewayError `invalid_policy` */
  compiled(texts: PolicyTexts): Promise<CompiledPolicy> {
    return loadPolicy(texts, this.#ground().options, 'The draft does not load');
  }

  /**
   * Errors and warnings as `gw policy check` gives them; undefined where the texts are longer than is checked here
   * (`POLICY_BOUNDS.checked`).
   */
  async checked(texts: PolicyTexts): Promise<Checked | undefined> {
    const length = [...textsOf(texts).values()].reduce((sum, text) => sum + text.length, 0);
    return length > POLICY_BOUNDS.checked.one ? undefined : checkTexts(texts, this.#ground().options);
  }

  /** Suites of the policies folder. */
  async suites(): Promise<readonly PolicyText[]> {
    const dir = this.#testsIn();
    return dir === undefined ? [] : readSuites(dir);
  }
}

/** A bundle that is put lies under the overlays of the folder. */
function overlaysOfFolder({ texts: { overlays } }: Base): Pick<PolicyTexts, 'overlays'> {
  return overlays === undefined ? {} : { overlays };
}
