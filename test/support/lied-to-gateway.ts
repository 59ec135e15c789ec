import { join } from 'node:path';
import type { Test } from 'tap';
import { eventually } from './child.ts';
import { PLACE_ORG } from './control-plane-place.ts';
import { type GatewayProcess, gatewayEnvironment } from './gateway-process.ts';
import type { LyingControlPlane } from './lying-control-plane.ts';
import { callThrough } from './place-calls.ts';
import { tempDir } from './temp-dir.ts';
import { startTlsUpstream } from './tls-upstream.ts';
import { towards } from './upstreams.ts';

const HOST = 'api.openai.com';
/** For everything that a gateway tries again by itself. */
export const RECONNECT_MS = 120_000;

/** Where a gateway finds a provider that answers. */
export async function upstreamOf(t: Test): Promise<Record<string, string>> {
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response, whole) =>
      void whole.then(() => response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":1}}')),
  });
  t.teardown(() => upstream.close());
  return towards(t, upstream, [HOST]);
}

/** Settings of a gateway that enrols with a control plane of ours. */
export async function environmentFor(t: Test, plane: LyingControlPlane, port = plane.port): Promise<Record<string, string>> {
  return {
    ...gatewayEnvironment(t),
    ...(await upstreamOf(t)),
    GW_CP_ADDR: `127.0.0.1:${port}`,
    GW_ORG_ID: PLACE_ORG,
    GW_NODE_ID: 'node-1',
    GW_KEY_DIR: join(tempDir(t), 'keys'),
    GW_BOOTSTRAP_TOKEN: plane.bootstrapToken,
  };
}

/** One call is served. @returns the hash of its record */
export async function serves(t: Test, gateway: GatewayProcess): Promise<string> {
  const { status, recordId, body } = await callThrough(t, gateway, 'structured API');
  t.equal(status, 200, JSON.stringify(body));
  return String((await gateway.record(recordId))['record_hash']);
}

/** Waits for a line. */
export function says(gateway: GatewayProcess, what: RegExp): Promise<true> {
  return eventually(`a line of the log with ${String(what)}`, () =>
    what.test(gateway.child.stdout + gateway.child.stderr) ? true : undefined,
  );
}
