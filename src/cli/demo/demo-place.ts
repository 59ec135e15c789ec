import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Gateway, startGateway } from '../../app/gateway.ts';
import { loadConfig } from '../../base/config/config.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { silentLogger } from '../../base/lib/log.ts';
import { STAND_IN_HOSTS, type StandInProvider, startStandIn } from './stand-in-provider.ts';

/** Of which the demo's policy says no. */
export const DENIED_MODEL = 'o1-pro';

const BUNDLE = `# The policy of gw demo: three providers, and one model that is too dear.
schema: gw.policy_bundle.v1
bundle_id: demo
version: "1"
inline_rules:
  connectors:
    - id: demo.three_providers
      when: { field: context.connector.id, in: [openai, anthropic, gemini] }
      effect: { decision: allow }
  targets:
    - id: demo.no_dear_models
      when: { field: context.action.params.model, equals: ${DENIED_MODEL} }
      effect:
        decision: deny
        reason: ${DENIED_MODEL} costs 600 dollars per million tokens, which nobody has approved
        reason_codes: [model_not_approved]
`;

/** A gateway whose providers are all on this machine. */
export interface DemoPlace {
  readonly folder: string;
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly ambientUrl: string;
  readonly rootFile: string;
  readonly bundleFile: string;
  readonly adminToken: string;
  /** With which other commands find it. */
  readonly settings: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * Starts a stand-in provider and a gateway in front of it, on free ports.
 * @param dir is kept; absent: a temporary folder that is removed at the end
 * @throws Error that says why it cannot be
 */
export async function openDemo(clock: Clock, dir?: string): Promise<DemoPlace> {
  const folder = dir === undefined ? await mkdtemp(join(tmpdir(), 'gw-demo-')) : resolve(dir);
  const closers: (() => Promise<void>)[] = dir === undefined ? [() => rm(folder, { recursive: true, force: true })] : [];
  const close = async () => {
    for (let closer = closers.pop(); closer; closer = closers.pop()) await closer();
  };
  try {
    const provider = await startStandIn(clock);
    closers.push(() => provider.close());
    const settings = await settle(folder, provider);
    const { config } = loadConfig(settings, false);
    const gateway = await startGateway(config, { log: silentLogger });
    closers.push(() => gateway.stop());
    return { ...placeOf(folder, gateway, settings), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Writes what the gateway reads; the policy of an earlier time stays. */
async function settle(folder: string, provider: StandInProvider): Promise<Record<string, string>> {
  const [policies, root] = [join(folder, 'policies'), join(folder, 'stand-in-root.pem')];
  await mkdir(policies, { recursive: true, mode: 0o700 });
  await writeFile(root, provider.rootPem);
  await writeFile(join(policies, 'bundle.yaml'), BUNDLE, { flag: 'wx' }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  });
  return {
    GW_PORT: '0',
    GW_AMBIENT_PORT: '0',
    GW_DATA_DIR: join(folder, 'data'),
    GW_CA_DIR: join(folder, 'ca'),
    GW_POLICIES_DIR: policies,
    GW_CREDENTIALS_DIR: join(folder, 'credentials'),
    GW_DRAIN_TIMEOUT: '2s',
    GW_UPSTREAM_CA_FILE: root,
    GW_UPSTREAM_CONNECT_TO: STAND_IN_HOSTS.map((host) => `${host}:443=127.0.0.1:${provider.port}`).join(','),
  };
}

function placeOf(folder: string, gateway: Gateway, settings: Record<string, string>): Omit<DemoPlace, 'close'> {
  const caDir = String(settings['GW_CA_DIR']);
  return {
    folder,
    url: `http://127.0.0.1:${gateway.port}`,
    ambientUrl: `http://127.0.0.1:${gateway.ambientPort}`,
    rootFile: join(caDir, 'root-ca.pem'),
    bundleFile: join(caDir, 'ca-bundle.pem'),
    adminToken: gateway.adminToken.value,
    settings: { ...settings, GW_PORT: String(gateway.port), GW_AMBIENT_PORT: String(gateway.ambientPort) },
  };
}
