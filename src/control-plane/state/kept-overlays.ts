import { sign } from 'node:crypto';
import { canonicalJson } from '../../base/json/jcs.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { isWellFormed } from '../../base/lib/text.ts';
import { policyTold } from '../../services/policy/audit-policy.ts';
import { loadPolicy } from '../../services/policy/load-policy.ts';
import { overlayFile } from '../../services/policy/org-overlays.ts';
import { type AcceptWeighed, overlayIn, type Weighed } from '../../services/policy/weigh-policy.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Store } from '../../storage/contract/store.ts';
import { keyIn, prefixOf, SPACE } from './control-plane-spaces.ts';
import type { KeptOverlay, Org } from './control-plane-state.ts';
import { loadedTogether, NO_RULES, weighTogether } from './loaded-together.ts';
import type { OrgVersions } from './org-versions.ts';
import type { SigningKeys } from './signing-keys.ts';

const SIGNED_OVERLAY = 'gw.signed_overlay.v1';
/** `org`, or `node:` and the id of a node. */
const ID = /^(?:org|node:[\x21-\x7e]{1,128})$/;
const ORG = 'org';
/** What the gateway's own management API takes. */
const MAX_CHARACTERS = 524_288;
/** All of an org together: they are fetched in one message. */
const MAX_BYTES = 3 * 1024 * 1024;

export interface KeptOverlaysOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly versions: OrgVersions;
  readonly signers: Pick<SigningKeys, 'signerAt'>;
  /** Turns names of providers into connector ids; undefined for an unknown one. */
  readonly connectorId: (text: string) => string | undefined;
  /** The bundle that an org's overlays lie over, if it has one here. */
  readonly bundleOf: (orgId: string) => string | undefined;
}

/**
 * What orgs lay over their bundles (specification, "Policy bundle"), each loaded alone on the tier of its org and then
 * signed (decision 13.12).
 */
export class KeptOverlays {
  readonly #options: KeptOverlaysOptions;

  constructor(options: KeptOverlaysOptions) {
    this.#options = options;
  }

  /** In the order of their ids. */
  async list(orgId: string): Promise<readonly KeptOverlay[]> {
    const rows = await this.#options.store.list(SPACE.overlays, { prefix: prefixOf(orgId) });
    return rows.map(({ value }) => value as KeptOverlay);
  }

  /**
   * @param accept told of what the change does before it is stored; default: it is meant
   * @throws GatewayError `invalid_request`, `invalid_policy` with line and column; `conflict` when somebody else was
   * first; what `accept` throws
   */
  async put(org: Org, id: string, bundleYaml: string, commit: Commit, accept?: AcceptWeighed): Promise<KeptOverlay> {
    const { store, clock, versions } = this.#options;
    const { org_id: orgId } = org;
    await this.#check(org, id, bundleYaml);
    const place = { space: SPACE.overlays, key: keyIn(orgId, id) };
    const found = await store.entity(place.space, place.key);
    const weighed = await this.#weigh(org, id, bundleYaml);
    const isWanted = accept?.(weighed) ?? true;
    const overlay = await this.#signed(orgId, id, bundleYaml, timestamp(clock.now()));
    if (!isWanted) return overlay;
    await versions.raising(orgId, ['overlays'], commit)(
      id,
      [{ op: 'put', ...place, value: overlay }],
      [{ ...place, version: found?.version }],
      [],
      policyTold(weighed),
    );
    return overlay;
  }

  /**
   * @param accept told of what the change does before it is made; default: it is meant
   * @throws GatewayError `not_found`, what `accept` throws
   */
  async remove(org: Org, id: string, commit: Commit, accept?: AcceptWeighed): Promise<void> {
    const { store, versions } = this.#options;
    const { org_id: orgId } = org;
    const place = { space: SPACE.overlays, key: keyIn(orgId, id) };
    const found = await store.entity(place.space, place.key);
    if (found === undefined) throw new GatewayError('not_found', `There is no overlay ${id}.`);
    const weighed = await this.#weigh(org, id, undefined);
    if (accept?.(weighed) === false) return;
    const told = policyTold(weighed);
    await versions.raising(orgId, ['overlays'], commit)(id, [{ op: 'delete', ...place }], [{ ...place, version: found.version }], [], told);
  }

  /** Ids of an org's overlays that are signed with another key. */
  async signedOtherwise(orgId: string, kid: string): Promise<readonly string[]> {
    return (await this.list(orgId)).flatMap((one) => (one.kid === kid ? [] : [one.id]));
  }

  /** As the bundle: with the key whose turn it is. @throws GatewayError `conflict` when somebody else was first */
  async signAnew(orgId: string, id: string, commit: Commit): Promise<void> {
    const { store, versions } = this.#options;
    const place = { space: SPACE.overlays, key: keyIn(orgId, id) };
    const found = await store.entity(place.space, place.key);
    if (found === undefined) return;
    const { bundle_yaml: text, put_at: putAt } = found.value as KeptOverlay;
    const value = await this.#signed(orgId, id, text, putAt);
    await versions.raising(orgId, ['overlays'], commit)(id, [{ op: 'put', ...place, value }], [{ ...place, version: found.version }]);
  }

  async #signed(orgId: string, id: string, bundleYaml: string, putAt: string): Promise<KeptOverlay> {
    const { clock, signers } = this.#options;
    const level = id === ORG ? 'org' : 'node';
    const nodeId = id === ORG ? '' : id.slice('node:'.length);
    const signed = { schema: SIGNED_OVERLAY, org_id: orgId, level, node_id: nodeId, put_at: putAt, sha256: sha256Hex(bundleYaml) };
    const { signer } = await signers.signerAt(clock.now());
    return {
      id,
      org_id: orgId,
      level,
      ...(nodeId === '' ? {} : { node_id: nodeId }),
      bundle_yaml: bundleYaml,
      put_at: putAt,
      kid: signer.kid,
      signature: sign(undefined, Buffer.from(canonicalJson(signed)), signer.key).toString('base64'),
    };
  }

  async #weigh({ org_id: orgId, plan_tier: tier }: Org, id: string, text: string | undefined): Promise<Weighed> {
    const kept = await this.list(orgId);
    const textOf = (wanted: string): string | undefined => kept.find((one) => one.id === wanted)?.bundle_yaml;
    const bundle = this.#options.bundleOf(orgId);
    const [was, is] = id === ORG ? [{ org: textOf(ORG) }, { org: text }] : [{ node: textOf(id) }, { node: text }];
    const below = id === ORG ? { bundle } : { bundle, org: textOf(ORG) };
    const written = overlayIn(overlayFile(id === ORG ? 'org' : 'node'));
    return weighTogether({ ...below, ...was }, { ...below, ...is }, written, { tier, connectorId: this.#options.connectorId });
  }

  async #check({ org_id: orgId, plan_tier: tier }: Org, id: string, text: string): Promise<void> {
    if (!ID.test(id)) throw bad('id', 'must be org, or node: and the id of a node');
    if (text.length > MAX_CHARACTERS || !isWellFormed(text))
      throw bad('bundle_yaml', `must be text of at most ${MAX_CHARACTERS} characters, without halves of them`);
    const others = (await this.list(orgId)).filter((one) => one.id !== id);
    const bytes = others.reduce((sum, one) => sum + Buffer.byteLength(one.bundle_yaml), Buffer.byteLength(text));
    if (bytes > MAX_BYTES) throw bad('bundle_yaml', `and the other overlays of the org must have at most ${MAX_BYTES} bytes together`);
    const overlay = { text, file: `${id === ORG ? 'org' : 'node'} overlay` };
    const { connectorId } = this.#options;
    const overlays = id === ORG ? { org: overlay } : { node: overlay };
    const language = { tier, connectorId };
    await loadPolicy({ bundle: NO_RULES, overlays }, language, 'The overlay does not load');
    const org = id === ORG ? undefined : others.find((one) => one.id === ORG);
    const below = { bundle: this.#options.bundleOf(orgId), org: org?.bundle_yaml };
    await loadedTogether({ ...below, [id === ORG ? 'org' : 'node']: text }, language);
  }
}

function bad(path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', 'The overlay is not valid.', { details: [{ path, message }] });
}
