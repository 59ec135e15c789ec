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
import type { Commit, ToldChanges } from '../../services/registers/commit.ts';
import { WatchedSpace } from '../../services/registers/watched-space.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { RestoreDeclaration } from '../ledger/restore-declaration.ts';
import { keyIn, SPACE } from './control-plane-spaces.ts';
import type { AcceptedBundle, KeptOverlay, Org, OrgBundle } from './control-plane-state.ts';
import { loadedTogether, weighTogether } from './loaded-together.ts';
import type { OrgVersions } from './org-versions.ts';
import type { SigningKeys } from './signing-keys.ts';

const SIGNED_BUNDLE = 'gw.signed_bundle.v1';
/** What the gateway's own admin API takes (specification, "Gateway admin API"). */
const MAX_CHARACTERS = 524_288;
/** What mistakes call the text. */
const FILE = 'bundle.yaml';

export interface OrgBundlesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly versions: OrgVersions;
  readonly signers: Pick<SigningKeys, 'signerAt'>;
  /** Turns names of providers into connector ids; undefined for an unknown one. */
  readonly connectorId: (text: string) => string | undefined;
  /** That the data were restored; undefined: nobody has said so. */
  readonly restore?: RestoreDeclaration | undefined;
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
    const { store, connectorId } = this.#options;
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
    const before = found?.value as OrgBundle | undefined;
    const bundle = await this.#signed(orgId, policy, bundleYaml, this.#sequenceAfter(before?.sequence ?? 0));
    const accepted: AcceptedBundle = { ...bundle, warnings: [...emptiedWarnings(policy), ...doubtsOf(policy)] };
    if (!isWanted) return accepted;
    // Nobody but operators reads the trail of a control plane.
    await this.#store(orgId, bundle, found?.version, commit, () => policyTold(weighed)(false));
    return accepted;
  }

  /** Orgs whose bundle is signed with another key. */
  signedOtherwise(kid: string): readonly string[] {
    return [...this.#space.entries()].flatMap(([orgId, bundle]) => (bundle.kid === kid ? [] : [orgId]));
  }

  /**
   * Signs the bundle of an org with the key whose turn it is, under the next sequence (decision 13.18): no gateway
   * looks twice at a sequence.
   * @throws GatewayError `conflict` when somebody else was first
   */
  async signAnew(orgId: string, commit: Commit): Promise<void> {
    const found = await this.#options.store.entity(SPACE.bundles, orgId);
    const before = found?.value as OrgBundle | undefined;
    if (before === undefined) return;
    const { bundle_id, version, sequence, bundle_yaml } = before;
    const own = version.slice(0, version.length - `+${sequence}`.length);
    await this.#store(orgId, await this.#signed(orgId, { bundle_id, version: own }, bundle_yaml, sequence + 1), found?.version, commit);
  }

  /**
   * Of a bundle that somebody puts: behind a restore from a backup it is higher than any that gateways may have taken
   * (decision 13.23).
   */
  #sequenceAfter(before: number): number {
    return Math.max(before + 1, this.#options.restore?.sequence ?? 0);
  }

  async #signed(
    orgId: string,
    policy: { readonly bundle_id: string; readonly version: string },
    bundleYaml: string,
    sequence: number,
  ): Promise<OrgBundle> {
    const { clock, signers } = this.#options;
    const now = clock.now();
    const { signer } = await signers.signerAt(now);
    const version = `${policy.version}+${sequence}`;
    const signed = { schema: SIGNED_BUNDLE, org_id: orgId, version, sequence, sha256: sha256Hex(bundleYaml) };
    return {
      bundle_id: policy.bundle_id,
      version,
      sequence,
      kid: signer.kid,
      bundle_yaml: bundleYaml,
      signature: sign(undefined, Buffer.from(canonicalJson(signed)), signer.key).toString('base64'),
      updated_at: timestamp(now),
    };
  }

  async #store(orgId: string, bundle: OrgBundle, before: string | undefined, commit: Commit, told?: ToldChanges): Promise<void> {
    await this.#options.versions.raising(orgId, ['policy'], commit)(
      orgId,
      [{ op: 'put', space: SPACE.bundles, key: orgId, value: bundle }],
      [{ space: SPACE.bundles, key: orgId, version: before }],
      [],
      told,
    );
    await this.#space.refresh(orgId);
  }

  #weigh({ org_id: orgId, plan_tier: tier }: Org, bundle: string, org: string | undefined): Promise<Weighed> {
    const { connectorId } = this.#options;
    return weighTogether({ bundle: this.get(orgId)?.bundle_yaml, org }, { bundle, org }, WHOLE_BUNDLE, { tier, connectorId });
  }
}
