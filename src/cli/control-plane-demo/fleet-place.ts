import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Gateway, startGateway } from '../../app/gateway.ts';
import { loadConfig } from '../../base/config/config.ts';
import { loadControlPlaneSettings } from '../../base/config/load-control-plane-settings.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { silentLogger } from '../../base/lib/log.ts';
import { startControlPlane } from '../../control-plane/app/control-plane.ts';
import type { CliIo } from '../command.ts';
import { adminOperationOf, ControlPlaneClient } from '../control-plane/control-plane-client.ts';
import { enrolmentSettings } from '../control-plane/create-bootstrap-token.ts';
import { STAND_IN_HOSTS, type StandInProvider, startStandIn } from '../demo/stand-in-provider.ts';
import { bundleText } from './fleet-policy.ts';

export const DEMO_ORG = 'acme';
const SECRET = 'sk-demo-not-a-real-key';

/** A gateway of the demo. */
export interface FleetGateway {
  readonly name: string;
  readonly mode: 'self-hosted' | 'managed';
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly adminToken: string;
  /** What a call of it shows beside its body. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A control plane and what has enrolled with it, all on this machine. */
export interface FleetPlace {
  readonly folder: string;
  /** Of its HTTP port. */
  readonly url: string;
  /** `HOST:PORT` of its gRPC port. */
  readonly address: string;
  readonly adminToken: string;
  readonly gateways: readonly FleetGateway[];
  /** Asks the control plane. @param args of the operation */
  ask(operation: string, args?: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, unknown>>>;
  close(): Promise<void>;
}

/**
 * Starts a stand-in provider, a control plane and two gateways that enrol with it, on free ports and in a temporary
 * folder that is removed at the end.
 * @throws Error that says why it cannot be
 */
export async function openFleet(clock: Clock): Promise<FleetPlace> {
  const folder = await mkdtemp(join(tmpdir(), 'gw-control-plane-demo-'));
  const closers: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    for (let closer = closers.pop(); closer; closer = closers.pop()) await closer();
  };
  try {
    const provider = await startStandIn(clock);
    closers.push(() => provider.close());
    const dataDir = join(folder, 'control-plane');
    const { config } = loadControlPlaneSettings({ CP_GRPC_PORT: '0', CP_HTTP_PORT: '0', CP_DATA_DIR: dataDir }, false);
    const controlPlane = await startControlPlane(config, { log: silentLogger });
    closers.push(() => controlPlane.stop());
    const url = `http://127.0.0.1:${controlPlane.httpPort}`;
    const adminToken = controlPlane.adminToken.value;
    const client = await ControlPlaneClient.open({ url, token: adminToken }, NOBODY);
    const place = { folder, url, address: `127.0.0.1:${controlPlane.grpcPort}`, adminToken, ask: askerOf(client) };
    const apiKey = await fillOrg(place);
    const gateways: FleetGateway[] = [];
    for (const mode of ['self-hosted', 'managed'] as const) {
      const { gateway, shown } = await openGateway({ place, provider, mode, apiKey });
      closers.push(() => gateway.stop());
      gateways.push(shown);
    }
    return { ...place, gateways, close };
  } catch (error) {
    await close();
    throw error;
  }
}

type Asked = Pick<FleetPlace, 'folder' | 'address' | 'ask'>;

/** Nothing of the shell's own settings counts here. */
const NOBODY: CliIo = {
  stdout: () => undefined,
  stderr: () => undefined,
  stdin: () => Promise.resolve(new Uint8Array(0)),
  env: {},
};

function askerOf(client: ControlPlaneClient): FleetPlace['ask'] {
  return async (operation, args = {}) => {
    const answer = await client.json(adminOperationOf(operation), args);
    return isJsonObject(answer) ? answer : {};
  };
}

/** An org with a policy, a credential and an API key. @returns the key */
async function fillOrg({ ask }: Asked): Promise<string> {
  await ask('org.put', { org: DEMO_ORG });
  await ask('bundle.put', { org: DEMO_ORG, bundle_yaml: bundleText('1', []) });
  await ask('credential.put', {
    org: DEMO_ORG,
    id: 'openai',
    connector_id: 'openai',
    mode: 'alias',
    distribution: 'org_wide',
    secret_ref: SECRET,
  });
  const { key } = await ask('key.create', { org: DEMO_ORG, name: 'demo' });
  return String(key);
}

interface Opened {
  readonly place: Asked;
  readonly provider: StandInProvider;
  readonly mode: FleetGateway['mode'];
  readonly apiKey: string;
}

async function openGateway({
  place,
  provider,
  mode,
  apiKey,
}: Opened): Promise<{ readonly gateway: Gateway; readonly shown: FleetGateway }> {
  const name = `gateway-${mode}`;
  const folder = join(place.folder, name);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const root = join(folder, 'stand-in-root.pem');
  await writeFile(root, provider.rootPem);
  const { token } = await place.ask('token.create', { org: DEMO_ORG });
  const { config } = loadConfig(
    {
      ...enrolmentSettings(place.address, DEMO_ORG, String(token)),
      GW_GATEWAY_MODE: mode,
      GW_NODE_ID: name,
      GW_KEY_DIR: join(folder, 'keys'),
      GW_PORT: '0',
      GW_AMBIENT_PORT: '0',
      GW_DATA_DIR: join(folder, 'data'),
      GW_CA_DIR: join(folder, 'ca'),
      GW_POLICIES_DIR: join(folder, 'policies'),
      GW_CREDENTIALS_DIR: join(folder, 'credentials'),
      GW_DRAIN_TIMEOUT: '2s',
      GW_UPSTREAM_CA_FILE: root,
      GW_UPSTREAM_CONNECT_TO: STAND_IN_HOSTS.map((host) => `${host}:443=127.0.0.1:${provider.port}`).join(','),
    },
    false,
  );
  const gateway = await startGateway(config, { log: silentLogger });
  const url = `http://127.0.0.1:${gateway.port}`;
  const headers: Record<string, string> = mode === 'managed' ? { 'X-GW-API-Key': apiKey } : {};
  return { gateway, shown: { name, mode, url, adminToken: gateway.adminToken.value, headers } };
}
