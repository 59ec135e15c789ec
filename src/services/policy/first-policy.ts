import { emptiedMessage, unusedFilesMessage } from '../../decide/policy/lint.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Register } from '../registers/register.ts';
import {
  type ActivePolicy,
  type Base,
  type CompileOptions,
  compileFolder,
  compileNone,
  compilePut,
  type PutBundle,
} from './active-policy.ts';
import { doubtsOf } from './policy-doubts.ts';
import { type PolicyFolder, readPolicyFolder } from './policy-folder.ts';

/** Where the bundle is stored that was put by the admin API. */
export const PUT_SPACE = 'policy';
export const PUT_KEY = 'bundle';

/** Where policy comes from a control plane. */
export const NOTHING_TO_RELOAD = 'The policy of this gateway comes from its control plane: there is nothing to reload here.';

/** Where a start looks for a bundle. */
export interface PolicyPlace extends CompileOptions {
  /** The policies folder; not read where the control plane gives the bundle. */
  readonly dir: string;
  readonly store: Store;
  /**
   * The bundle comes from the control plane and from nowhere else: until it is here, everything is denied (decision
   * 13.9).
   */
  readonly managedRemotely: boolean;
  /** What a bundle is held against that may let nothing pass. */
  readonly passage?: PassageOptions;
}

/** Says what is in force, and what of it is probably not meant. */
export function logLoaded(
  { log, passage }: Pick<PolicyPlace, 'log' | 'passage'>,
  { bundle_id, version, source, content_hash, policy }: ActivePolicy,
  folder: PolicyFolder | undefined,
): void {
  log.info({ bundle_id, version, source, content_hash, rules: policy.ruleCount }, 'policy bundle loaded');
  for (const { layer, rule_id, file } of policy.emptied) log.warn({ layer, rule_id, file }, emptiedMessage(layer));
  for (const { message, code, files } of doubtsOf(policy, passage)) log.warn({ bundle_id, code, files }, message);
  if (folder === undefined) return;
  const { dir, addons } = folder;
  if (policy.unusedFiles.length > 0) log.warn({ dir, files: policy.unusedFiles }, unusedFilesMessage(policy.unusedFiles));
  const read = new Set(policy.layers.flatMap((layer) => layer.rules.map((rule) => rule.file)));
  if (source === 'api' || !addons.length || addons.some(({ file }) => read.has(file))) return;
  log.warn({ dir, addons: addons.map(({ file }) => file) }, 'addons/ does not count, since the bundle has inline_rules or files');
}

/** What a start finds. */
export interface FirstPolicy {
  readonly folder: PolicyFolder | undefined;
  readonly base: Base;
  /** Undefined: what runs is no bundle that was put. */
  readonly put: PutBundle | undefined;
}

/** The folder, or the bundle that was put since its content last changed; with a control plane nothing yet. */
export async function firstBase(options: PolicyPlace, bundles: Register<PutBundle>): Promise<FirstPolicy> {
  if (options.managedRemotely) return { folder: undefined, base: await compileNone(options), put: undefined };
  const folder = await readPolicyFolder(options.dir);
  const fromFolder = await compileFolder(folder, options);
  const put = bundles.get(PUT_KEY);
  if (put === undefined) return { folder, base: fromFolder, put };
  if (put.folder_hash === folder.hash) {
    const what = 'The policy bundle that was put by API no longer loads (a change in the policies folder drops it)';
    return { folder, base: await compilePut(put, folder, options, what), put };
  }
  await bundles.remove(PUT_KEY);
  const { bundle_id } = fromFolder.active;
  options.log.warn({ dir: folder.dir, bundle_id }, 'the policies folder has changed and replaces the bundle that was put');
  return { folder, base: fromFolder, put: undefined };
}
