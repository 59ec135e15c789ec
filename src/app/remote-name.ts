import type { Config } from '../base/config/config.ts';
import { bracketHost } from '../base/lib/host.ts';

/** The org whose registers the control plane has for this gateway. */
export function remoteOrg({ orgId }: Pick<Config, 'orgId'>): string {
  return orgId ?? 'default';
}

/** Names the control plane and the org, so that what was taken from another is not taken for its own; undefined without one. */
export function remoteName({ cpAddr, orgId }: Pick<Config, 'cpAddr' | 'orgId'>): string | undefined {
  return cpAddr && `${remoteOrg({ orgId })}@${bracketHost(cpAddr.host)}:${cpAddr.port}`;
}
