import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Gateway } from '../../app/gateway.ts';
import type { Config } from '../../base/config/config.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { systemClock, timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { derOf, fingerprint } from '../trust/trust-place.ts';
import { type FindingSettings, type RememberedGateway, rememberGateway, rememberStop } from './remembered-gateways.ts';

/** What is known of a start that is noted. */
export interface NotedStart {
  /** Commands of any folder find it. */
  readonly done: boolean;
  /** Why commands of other folders will not find it, for a person; undefined: they will, or nothing is to be noted. */
  readonly problem: string | undefined;
  /** Notes that it has ended. Never rejects. */
  stopped(): Promise<void>;
}

/**
 * Notes where a gateway is that has just started, for the commands of its user (decision 12.15). Never rejects: no
 * gateway fails to start because of it.
 */
export async function rememberStart(gateway: Gateway, config: Config): Promise<NotedStart> {
  const { configDir } = config;
  const nothing: NotedStart = { done: false, problem: undefined, stopped: () => Promise.resolve() };
  if (configDir === undefined) return nothing;
  try {
    const noted = notedGateway(gateway, config);
    if (!(await rememberGateway(configDir, noted))) return nothing;
    return {
      done: true,
      problem: undefined,
      stopped: () => rememberStop(configDir, noted, timestamp(systemClock.now())).catch(() => undefined),
    };
  } catch (error) {
    return { ...nothing, problem: messageOf(error) };
  }
}

function notedGateway(gateway: Gateway, config: Config): RememberedGateway {
  return {
    settings: findingSettings(gateway, config),
    folder: process.cwd(),
    node_id: config.nodeId,
    version: packageVersion(),
    pid: process.pid,
    started_at: timestamp(systemClock.now()),
    root_sha256:
      gateway.caFile === undefined ? [] : certificatesIn(readFileSync(gateway.caFile, 'utf8')).map((pem) => fingerprint(derOf(pem))),
  };
}

/** With the ports that it really has. */
function findingSettings(gateway: Gateway, config: Config): FindingSettings {
  const tokenFile = gateway.adminToken.file ?? shellVariable('GW_ADMIN_TOKEN_FILE');
  const set: Readonly<Record<string, string | undefined>> = {
    GW_HOST: gateway.host,
    GW_PORT: String(gateway.port),
    GW_AMBIENT_PORT: String(gateway.ambientPort),
    GW_MGMT_PORT: gateway.managementPort === undefined ? undefined : String(gateway.managementPort),
    GW_DATA_DIR: resolve(config.dataDir),
    GW_CA_DIR: resolve(config.caDir),
    GW_TLS_CERT_FILE: config.tlsCertFile,
    GW_TLS_KEY_FILE: config.tlsKeyFile,
    GW_PUBLIC_NAMES: config.publicNames.size === 0 ? undefined : [...config.publicNames].join(','),
    // A bind beyond loopback is no setting without it.
    GW_PROXY_AUTH: config.proxyAuth,
    GW_PROXY_ENABLED: String(config.proxyEnabled),
    GW_PROXY_MITM_ENABLED: String(config.proxyMitmEnabled),
    GW_ORG_ID: config.orgId,
    GW_ADMIN_TOKEN_FILE: tokenFile === undefined ? undefined : resolve(tokenFile),
  };
  return Object.fromEntries(Object.entries(set).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
