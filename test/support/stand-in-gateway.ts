import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/base/lib/clock.ts';
import { STAND_IN_HOSTS, startStandIn } from '../../src/cli/demo/stand-in-provider.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export interface StandInGateway extends TestGateway {
  /** The settings by which commands find it. */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * A gateway behind which there is nothing but the demo's stand-in: whatever else programs ask for is refused with a
 * record. It has the clock of its programs.
 */
export async function startStandInGateway(t: HasTeardown, options: TestGatewayOptions = {}): Promise<StandInGateway> {
  const provider = await startStandIn(systemClock);
  t.teardown(() => provider.close());
  const rootFile = join(tempDir(t), 'stand-in-root.pem');
  writeFileSync(rootFile, provider.rootPem);
  const gateway = await startTestGateway(t, {
    clock: systemClock,
    ...options,
    env: {
      GW_PROXY_NON_AI: 'govern',
      GW_UPSTREAM_CA_FILE: rootFile,
      GW_UPSTREAM_CONNECT_TO: STAND_IN_HOSTS.map((host) => `${host}:443=127.0.0.1:${provider.port}`).join(','),
      ...options.env,
    },
  });
  const settings = {
    GW_PORT: String(gateway.port),
    GW_AMBIENT_PORT: String(gateway.ambientPort),
    GW_CA_DIR: join(gateway.caFile, '..'),
    GW_DATA_DIR: gateway.dataDir,
    GW_ADMIN_TOKEN: 'test-admin-token-0123456789',
  };
  return { ...gateway, settings };
}
