import type { Config } from '../base/config/config.ts';
import { bracketHost } from '../base/lib/host.ts';

/**
 * Names the control plane and the org, so that what was taken from another is not taken for its own; undefined without
 * both.
 */
export function remoteName({ cpAddr, orgId }: Pick<Config, 'cpAddr' | 'orgId'>): string | undefined {
  if (cpAddr === undefined || orgId === undefined) return undefined;
  return `${orgId}@${bracketHost(cpAddr.host)}:${cpAddr.port}`;
}
