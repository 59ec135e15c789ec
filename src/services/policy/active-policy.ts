import type { Clock } from '../../base/lib/clock.ts';
import { type ErrorDetail, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { NO_SWITCHES, type ProviderSwitches } from '../../base/model/org.ts';
import { type PolicyInput, textsOfLevel } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { type LanguageOptions, loadPolicy } from './load-policy.ts';
import { BUNDLE_NOT_LOADED, NO_BUNDLE } from './no-bundle.ts';
import type { OrgLayers } from './org-overlays.ts';
import { hashTexts, type PolicyFolder } from './policy-folder.ts';
import { NOT_LOADED } from './switch-rules.ts';

const PUT_FILE = 'bundle_yaml';
const REMOTE_FILE = 'bundle.yaml';

export interface CompileOptions extends LanguageOptions {
  readonly clock: Clock;
  readonly log: Logger;
}

/** `file`: the policies folder; `api`: a bundle that was put; `control_plane`: one that was fetched. */
export const POLICY_SOURCES = ['file', 'api', 'control_plane'] as const;
export type PolicySource = (typeof POLICY_SOURCES)[number];

/** The snapshot that requests are decided by. A request keeps the one it started with. */
export interface ActivePolicy {
  readonly policy: CompiledPolicy;
  readonly bundle_id: string;
  readonly version: string;
  readonly source: PolicySource;
  /** Milliseconds since the epoch; of a bundle that was put or fetched: when that was. */
  readonly loaded_at: number;
  /** Lower-case hex SHA-256 over the texts that it was compiled from. */
  readonly content_hash: string;
  /** Whose keys may be used, as the org has said; of a request it goes with the policy that it is judged by. */
  readonly switches: ProviderSwitches;
  /**
   * Of one from the control plane: as it was signed there, by which it can be compared with what is there (decision
   * 13.9).
   */
  readonly signed?: SignedAs;
  /**
   * What does not load of that which should count here, as `gw policy check` says it: everything is denied for it.
   * Absent: all of it does.
   */
  readonly notLoaded?: readonly ErrorDetail[];
}

/** How a control plane calls a bundle that it has signed. */
export interface SignedAs {
  readonly version: string;
  readonly sequence: number;
  readonly kid: string;
}

/** The texts of the bundle in force, for laying those of an org over them. */
type BaseTexts = Omit<PolicyInput, 'tier' | 'generated'>;

/** A bundle that has compiled, and what it was compiled from. */
export interface Base {
  readonly active: ActivePolicy;
  readonly texts: BaseTexts;
  /**
   * None was ever fetched, or the tier does not include it any more: everything is denied, and nothing that is laid
   * over it changes that.
   */
  readonly isNone?: true;
}

/** A bundle of the control plane whose signature holds. */
export interface FetchedBundle {
  readonly bundle_yaml: string;
  /** When it was fetched, milliseconds since the epoch. */
  readonly fetched_at: number;
  readonly signed?: SignedAs;
}

/** A bundle that was put, as the store keeps it. */
export interface PutBundle {
  readonly bundle_yaml: string;
  readonly put_at: number;
  /** Content of the policies folder at that moment: another content, and the folder counts again (decision 5.5). */
  readonly folder_hash: string;
}

export async function compileFolder(folder: PolicyFolder, options: CompileOptions): Promise<Base> {
  const { bundle, files, addons, overlays, hash } = folder;
  const texts: BaseTexts = { bundle, files, addons, overlays };
  const policy = await loadPolicy(texts, options, `The policy bundle in ${folder.dir} does not load`);
  return { active: snapshot(policy, { source: 'file', loaded_at: options.clock.now(), content_hash: hash }), texts };
}

export async function compilePut(put: PutBundle, { overlays }: PolicyFolder, options: CompileOptions, what: string): Promise<Base> {
  const bundle = { text: put.bundle_yaml, file: PUT_FILE };
  const texts: BaseTexts = { bundle, overlays };
  const policy = await loadPolicy(texts, options, what);
  const hash = hashTexts([bundle, overlays.org, overlays.node]);
  return { active: snapshot(policy, { source: 'api', loaded_at: put.put_at, content_hash: hash }), texts };
}

/** Alone: the policies folder says nothing where policy comes from a control plane. */
export async function compileFetched({ bundle_yaml: text, fetched_at: at, signed }: FetchedBundle, options: CompileOptions): Promise<Base> {
  const texts: BaseTexts = { bundle: { text, file: REMOTE_FILE } };
  const policy = await loadPolicy(texts, options, 'The policy bundle of the control plane does not load');
  const from = { source: 'control_plane', loaded_at: at, content_hash: hashTexts([texts.bundle]), ...(signed && { signed }) } as const;
  return { active: snapshot(policy, from), texts };
}

/**
 * The same texts on another tier. Where that does not include all of them everything is denied until it does, or others
 * take their place.
 */
export async function compileAgain(base: Base, options: CompileOptions): Promise<Base> {
  const { active, texts } = base;
  if (texts.bundle === NO_BUNDLE) return base;
  try {
    const policy = await loadPolicy(texts, options, 'The policy bundle no longer loads');
    return { active: { ...snapshot(policy, active) }, texts };
  } catch (error) {
    options.log.error({ err: error, tier: options.tier }, 'all requests are denied: the plan tier does not include the policy bundle');
    const policy = await loadPolicy({ bundle: BUNDLE_NOT_LOADED }, options, '');
    const { bundle_id, version } = active;
    return { active: { ...snapshot(policy, active), bundle_id, version, notLoaded: problemsOf(error) }, texts, isNone: true };
  }
}

/** What stands in the place of a bundle that was never fetched (decision 13.9). */
export async function compileNone(options: CompileOptions): Promise<Base> {
  const policy = await loadPolicy({ bundle: NO_BUNDLE }, options, '');
  const from = { source: 'control_plane', loaded_at: options.clock.now(), content_hash: hashTexts([NO_BUNDLE]) } as const;
  return { active: snapshot(policy, from), texts: { bundle: NO_BUNDLE }, isNone: true };
}

/**
 * What is stored and no longer loads (another tier, another version) denies all requests of its org: without it they
 * would be judged by less than the org has said.
 */
export function orgPolicy(orgId: string, base: Base, layers: OrgLayers, options: CompileOptions): Promise<ActivePolicy> {
  return orgPolicyUnless(() => false, orgId, base, layers, options);
}

/**
 * As {@link orgPolicy}, for a change of some of the texts: what is wrong in others keeps nobody from changing these, or
 * from taking them away.
 * @param isChanged tells the files that are changed
 * @throws GatewayError `invalid_policy` when something is wrong in one of them
 */
export async function orgPolicyUnless(
  isChanged: (file: string | undefined) => boolean,
  orgId: string,
  base: Base,
  layers: OrgLayers,
  options: CompileOptions,
): Promise<ActivePolicy> {
  try {
    return await compileOrg(base, layers, options, `The policy of the org ${orgId} does not load`);
  } catch (error) {
    const notLoaded = problemsOf(error);
    if (notLoaded.some(({ file }) => isChanged(file))) throw error;
    options.log.error({ org_id: orgId, err: error }, 'all requests of an org are denied: its overlay or add-ons do not load');
    const denying = await compileOrg(base, { ...layers, org: [], node: [], generated: [NOT_LOADED] }, options, '');
    return { ...denying, content_hash: orgHash(base, layers), notLoaded };
  }
}

function problemsOf(error: unknown): readonly ErrorDetail[] {
  const details = error instanceof GatewayError ? (error.details ?? []) : [];
  return details.length > 0 ? details : [{ path: '', message: messageOf(error) }];
}

async function compileOrg(base: Base, layers: OrgLayers, options: CompileOptions, what: string): Promise<ActivePolicy> {
  if (base.isNone === true) return base.active;
  const policy = await loadPolicy(textsOfOrg(base, layers), options, what);
  const from = { ...base.active, loaded_at: options.clock.now(), content_hash: orgHash(base, layers) };
  return { ...snapshot(policy, from), switches: layers.switches };
}

/** The texts that the requests of an org are judged by; without layers those of the bundle. */
export function textsOfOrg({ texts }: Pick<Base, 'texts'>, layers: OrgLayers | undefined): Omit<PolicyInput, 'tier'> {
  if (layers === undefined) return texts;
  const { overlays } = texts;
  const laid = { org: [...textsOfLevel(overlays?.org), ...layers.org], node: [...textsOfLevel(overlays?.node), ...layers.node] };
  return { ...texts, overlays: laid, generated: layers.generated };
}

export function orgHash(base: Base, { org, node, generated, switches }: OrgLayers): string {
  const { byokOff, oauthOn, oauthOff } = switches;
  const said = JSON.stringify([base.active.content_hash, [...byokOff], [...oauthOn], [...oauthOff]]);
  return hashTexts([{ file: '', text: said }, ...org, ...node, ...generated.map(({ file, text }) => ({ file, text }))]);
}

function snapshot(
  policy: CompiledPolicy,
  { source, loaded_at, content_hash, signed }: Pick<ActivePolicy, 'source' | 'loaded_at' | 'content_hash' | 'signed'>,
): ActivePolicy {
  const { bundle_id, version } = policy;
  return {
    policy,
    bundle_id,
    version,
    switches: NO_SWITCHES,
    source,
    loaded_at,
    content_hash,
    ...(signed === undefined ? {} : { signed }),
  };
}

export function readPut(value: unknown): PutBundle | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('bundle_yaml' in value) || !('put_at' in value) || !('folder_hash' in value)) return undefined;
  const { bundle_yaml, put_at, folder_hash } = value;
  if (typeof bundle_yaml !== 'string' || typeof put_at !== 'number' || typeof folder_hash !== 'string') return undefined;
  return { bundle_yaml, put_at, folder_hash };
}
