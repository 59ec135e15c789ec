import { FolderWatch } from '../services/keeper/folder-watch.ts';
import type { ShadowPolicy } from '../services/policy/shadow-policy.ts';
import type { Resources } from './resources.ts';

/**
 * Takes changes of the policies folder, and of the shadow bundle, as they are made (`GW_POLICIES_WATCH`); returns what
 * ends it.
 */
export function followPolicies({ policies, clock, log }: Resources, shadow: ShadowPolicy | undefined): () => Promise<void> {
  const watch = new FolderWatch({
    folders: () => [...policies.folders(), ...(shadow?.folders() ?? [])],
    onChange: async () => {
      await policies.follow();
      await shadow?.load('watch');
    },
    clock,
    log,
  });
  return () => watch.close();
}
