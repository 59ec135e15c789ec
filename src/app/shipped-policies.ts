import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { packageRoot } from '../base/lib/package-root.ts';

/**
 * The policies that decide on a first start in an empty folder: those of the package, which are only read. A folder
 * that somebody has named has to be there, and none is read where policy comes from a control plane.
 * @returns the settings, and what a person is told when they are not as given
 */
export function withShippedPolicies(config: Config): { readonly config: Config; readonly note: string | undefined } {
  if (config.cpAddr !== undefined || config.policiesDirIsSet || existsSync(config.policiesDir)) return { config, note: undefined };
  const policiesDir = join(packageRoot(), 'policies');
  const note = `there is no ${config.policiesDir}, so the policy that comes with the gateway decides (${policiesDir}); gw init makes one of your own`;
  return { config: { ...config, policiesDir }, note };
}
