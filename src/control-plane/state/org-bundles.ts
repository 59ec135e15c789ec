import { sign } from 'node:crypto';
import { canonicalJson } from '../../base/json/jcs.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { isWellFormed } from '../../base/lib/text.ts';
import { policyTold } from '../../services/policy/audit-policy.ts';
import { loadPolicy } from '../../services/policy/load-policy.ts';
import { doubtsOf } from '../../services/policy/policy-doubts.ts';
import { emptiedWarnings } from '../../services/policy/policy-warnings.ts';
import { type AcceptWeighed, type Weighed, WHOLE_BUNDLE } from '../../services/policy/weigh-policy.ts';
import type { Commit } from '../../services/registers/commit.ts';
import { WatchedSpace } from '../../services/registers/watched-space.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { KeptSigningKey } from '../pki/kept-signing-key.ts';
import { keyIn, SPACE } from './control-plane-spaces.ts';
import type { AcceptedBundle, KeptOverlay, Org, OrgBundle } from './control-plane-state.ts';
import { loadedTogether, weighTogether } from './loaded-together.ts';
import type { OrgVersions } from './org-versions.ts';

const SIGNED_BUNDLE = 'gw.signed_bundle.v1';
/** What the gateway's own admin API takes (specification, "Gateway admin API"). */
const MAX_CHARACTERS = 524_288;
/** What mistakes call the text. */
const FILE = 'bundle.yaml';

export interface OrgBundlesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly versions: OrgVersions;
  readonly signer: KeptSigningKey;
  /** Turns names of providers into connector ids; undefined for an unknown one. */
  readonly connectorId: (text: string) => string | undefined;
}

/** The bundle of each org, loaded as a gateway loads it before it is signed (decision 13.5). */
export class OrgBundles {
  readonly #options: OrgBundlesOptions;
  readonly #space: WatchedSpace<OrgBundle>;

  private constructor(options: OrgBundlesOptions, space: WatchedSpace<OrgBundle>) {
    this.#options = options;
    this.#space = space;
  }

  static async open(options: OrgBundlesOptions): Promise<OrgBundles> {
    return new OrgBundles(
      options,
      await WatchedSpace.open<OrgBundle>(options.store, SPACE.bundles, { read: (value) => value as OrgBundle }),
    );
  }

  get(orgId: string): OrgBundle | undefined {
    return this.#space.get(orgId);
  }

  /**
   * @param accept told of what the change does before it is stored; default: it is meant
   * @throws GatewayError `invalid_policy` with line and column; `conflict` when somebody else was first; what `accept`
   * throws
   */
  async put(org: Org, bundleYaml: string, commit: Commit, accept?: AcceptWeighed): Promise<AcceptedBundle> {
    const { store, clock, versions, signer, connectorId } = this.#options;
    const { org_id: orgId } = org;
    if (bundleYaml.length > MAX_CHARACTERS || !isWellFormed(bundleYaml))
      throw new GatewayError('invalid_request', 'The bundle is not valid.', {
        details: [{ path: 'bundle_yaml', message: `must be text of at most ${MAX_CHARACTERS} characters, without halves of them` }],
      });
    const texts = { bundle: { text: bundleYaml, file: FILE } };
    const policy = await loadPolicy(texts, { tier: org.plan_tier, connectorId }, 'The bundle does not load');
    const overlay = (await store.entity(SPACE.overlays, keyIn(orgId, 'org')))?.value as KeptOverlay | undefined;
    if (overlay !== undefined) await loadedTogether({ bundle: bundleYaml, org: overlay.bundle_yaml }, { tier: org.plan_tier, connectorId });
    const found = await store.entity(SPACE.bundles, orgId);
    const weighed = await this.#weigh(org, bundleYaml, overlay?.bundle_yaml);
    const isWanted = accept?.(weighed) ?? true;
    const sequence = ((found?.value as OrgBundle | undefined)?.sequence ?? 0) + 1;
    const version = `${policy.version}+${sequence}`;
    const signed = { schema: SIGNED_BUNDLE, org_id: orgId, version, sequence, sha256: sha256Hex(bundleYaml) };
    const bundle: OrgBundle = {
      bundle_id: policy.bundle_id,
      version,
      sequence,
      kid: signer.kid,
      bundle_yaml: bundleYaml,
      signature: sign(undefined, Buffer.from(canonicalJson(signed)), signer.key).toString('base64'),
      updated_at: timestamp(clock.now()),
    };
    const accepted: AcceptedBundle = { ...bundle, warnings: [...emptiedWarnings(policy), ...doubtsOf(policy)] };
    if (!isWanted) return accepted;
    await versions.raising(orgId, ['policy'], commit)(
      orgId,
      [{ op: 'put', space: SPACE.bundles, key: orgId, value: bundle }],
      [{ space: SPACE.bundles, key: orgId, version: found?.version }],
      [],
      // Nobody but operators reads the trail of a control plane.
      () => policyTold(weighed)(false),
    );
    await this.#space.refresh(orgId);
    return accepted;
  }

  #weigh({ org_id: orgId, plan_tier: tier }: Org, bundle: string, org: string | undefined): Promise<Weighed> {
    const { connectorId } = this.#options;
    return weighTogether({ bundle: this.get(orgId)?.bundle_yaml, org }, { bundle, org }, WHOLE_BUNDLE, { tier, connectorId });
  }
}
