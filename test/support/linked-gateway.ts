import { join } from 'node:path';
import type { Test } from 'tap';
import { type RunningControlPlane, runControlPlane } from './control-plane.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { ALLOW_ALL, type Governed, startGoverned } from './governed.ts';
import { tempDir } from './temp-dir.ts';

/** A bundle that allows everything, by this name. */
export const named = (bundleId: string): string => ALLOW_ALL.replace('bundle_id: test', `bundle_id: ${bundleId}`);

/** A control plane with the org `acme`, and gateways of it. */
export interface Linked {
  readonly cp: RunningControlPlane;
  readonly clock: FakeClock;
  /** What every start has in common. */
  readonly settings: Readonly<Record<string, string>>;
  /** Starts the gateway, in the same folders each time. */
  start(env?: Readonly<Record<string, string>>): Promise<Governed>;
  putBundle(yaml: string): Promise<unknown>;
}

export async function linked(t: Test): Promise<Linked> {
  const clock = fakeClock(Date.now());
  const cp = await runControlPlane(t, { clock });
  await cp.plane.state.orgs.put('acme', {}, cp.commit);
  const { token } = await cp.plane.state.tokens.issue('acme', 3_600, cp.commit);
  const dir = tempDir(t);
  const settings = {
    GW_CP_ADDR: `127.0.0.1:${cp.plane.grpcPort}`,
    GW_ORG_ID: 'acme',
    GW_NODE_ID: 'node-1',
    GW_KEY_DIR: join(dir, 'keys'),
    GW_DATA_DIR: join(dir, 'data'),
    GW_POLICIES_DIR: join(dir, 'nowhere'),
    GW_BOOTSTRAP_TOKEN: token,
  };
  return {
    cp,
    clock,
    settings,
    start: (env = {}) => startGoverned(t, { clock, env: { ...settings, ...env } }),
    putBundle: (yaml) => cp.plane.state.bundles.put('acme', yaml, cp.commit),
  };
}

/** Turns of the event loop until it holds. @throws Error that says what never did */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let turns = 0; !(await holds()); turns++) {
    if (turns > 5_000) throw new Error(`never: ${what}`);
    await new Promise(setImmediate);
  }
}
