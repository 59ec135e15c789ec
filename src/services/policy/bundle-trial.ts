import { GatewayError } from '../../base/lib/gateway-error.ts';
import { withoutByteOrderMark } from '../../base/lib/text.ts';
import type { ToldChanges } from '../registers/commit.ts';
import { type Base, type CompileOptions, compilePut, type PutBundle } from './active-policy.ts';
import { bundleTold } from './audit-policy.ts';
import { type PolicyFolder, readPolicyFolder } from './policy-folder.ts';
import { EVERY_TEXT, type Weighed, type WeighedSide, type WeighOptions, WHOLE_BUNDLE, weigh } from './weigh-policy.ts';

/** A bundle that could be put. */
export interface TriedBundle {
  readonly put: PutBundle;
  readonly base: Base;
  readonly weighed: Weighed;
  /** For the audit trail. */
  readonly told: ToldChanges;
}

/**
 * Compiles a bundle as one that is put, and compares it with the one in force, both without what orgs lay over them.
 * @param folder undefined: the bundle comes from the control plane
 * @throws GatewayError `invalid_policy`, `managed_remotely`
 */
export async function tryBundle(
  bundleYaml: string,
  { folder, base: { active, texts } }: { readonly folder: PolicyFolder | undefined; readonly base: Base },
  options: CompileOptions & WeighOptions & { readonly dir: string },
): Promise<TriedBundle> {
  if (folder === undefined)
    throw new GatewayError('managed_remotely', 'The policy of this gateway comes from its control plane: change it there.');
  const onDisk = await readPolicyFolder(options.dir).catch(() => folder);
  const put: PutBundle = { bundle_yaml: withoutByteOrderMark(bundleYaml), put_at: options.clock.now(), folder_hash: onDisk.hash };
  const base = await compilePut(put, folder, options, 'The policy bundle does not load');
  const weighed = await weigh(sideOf({ active, texts }), sideOf(base), WHOLE_BUNDLE, options);
  return { put, base, weighed, told: bundleTold(weighed, active, base.active) };
}

/**
 * What an entry of the audit trail tells when a bundle, with the overlays of its folder, takes the place of the one in
 * force.
 */
export async function toldOfBundle(before: Base, after: Base, options: CompileOptions): Promise<ToldChanges> {
  return bundleTold(await weigh(sideOf(before), sideOf(after), EVERY_TEXT, options), before.active, after.active);
}

function sideOf({ active, texts }: Pick<Base, 'active' | 'texts'>): WeighedSide {
  return { texts, policy: active.notLoaded === undefined ? active.policy : undefined };
}
