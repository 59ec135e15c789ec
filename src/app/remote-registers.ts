import type { Config } from '../base/config/config.ts';
import { FetchedVersions } from '../link/fetched-versions.ts';
import type { Channel, ControlPlaneLink, RemoteResource } from '../link/link-ports.ts';
import { lookUpKeysBy, RemoteApiKeys } from '../link/remote-api-keys.ts';
import { RemoteCredentials } from '../link/remote-credentials.ts';
import { RemoteExportConfig } from '../link/remote-export-config.ts';
import { RemoteWorkloads } from '../link/remote-workloads.ts';
import { parseCredential } from '../operations/credential-body.ts';
import { parseDestination } from '../operations/management/export-operations.ts';
import { parseWorkload } from '../operations/workload-body.ts';
import { fileContext } from './credential-files.ts';
import type { Ground } from './ground.ts';
import type { Services } from './open-services.ts';
import { remoteName } from './remote-name.ts';

export interface RemoteRegisters {
  /** To be fetched when the control plane says that they are stale. */
  readonly resources: readonly RemoteResource[];
  /** From now on keys are looked up, and usage reports sent, by this channel. */
  attach(channel: Channel, link: ControlPlaneLink): void;
}

/** What people register at the control plane of this gateway; nothing without one (decision 13.10). */
export async function remoteRegisters(
  config: Pick<Config, 'cpAddr' | 'orgId' | 'nodeId'>,
  { store, catalogues, waysOut }: Pick<Ground, 'store' | 'catalogues'> & { readonly waysOut: Pick<Ground['waysOut'], 'throughChannel'> },
  services: Pick<Services, 'workloads' | 'credentials' | 'policies' | 'exports' | 'apiKeys' | 'customConnectors'>,
): Promise<RemoteRegisters | undefined> {
  const { orgId, nodeId } = config;
  const from = remoteName(config);
  if (from === undefined || orgId === undefined) return undefined;
  const { workloads, credentials, policies, exports, apiKeys, customConnectors } = services;
  const common = { store, orgId, nodeId, versions: await FetchedVersions.open(store, from) };
  const context = fileContext(catalogues, customConnectors);
  const { remote: keys } = apiKeys;
  return {
    resources: [
      new RemoteWorkloads({ ...common, workloads, parse: parseWorkload }),
      new RemoteCredentials({ ...common, credentials, policies, parse: (body) => parseCredential(body, context) }),
      new RemoteExportConfig({ ...common, exports, parse: parseDestination }),
      ...(keys === undefined ? [] : [new RemoteApiKeys(keys)]),
    ],
    attach: (channel, link) => {
      if (keys !== undefined) lookUpKeysBy(keys, channel, { link, orgId });
      waysOut.throughChannel?.attach(channel);
    },
  };
}
