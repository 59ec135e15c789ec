import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AimockUpstream } from './aimock.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';
import type { TestUpstream } from './tls-upstream.ts';

/** The settings that lead a gateway to the mock instead of the real providers. */
export function towardsMock(t: HasTeardown, upstream: AimockUpstream): Record<string, string> {
  return { GW_UPSTREAM_CONNECT_TO: upstream.connectTo, GW_UPSTREAM_CA_FILE: caFile(t, upstream.caPem) };
}

/** The same for an upstream of our own that stands for `hosts`. */
export function towards(t: HasTeardown, upstream: Pick<TestUpstream, 'port' | 'caPem'>, hosts: readonly string[]): Record<string, string> {
  return {
    GW_UPSTREAM_CONNECT_TO: hosts.map((host) => `${host}:443=127.0.0.1:${upstream.port}`).join(','),
    GW_UPSTREAM_CA_FILE: caFile(t, upstream.caPem),
  };
}

function caFile(t: HasTeardown, pem: string): string {
  const file = join(tempDir(t), 'upstream-ca.pem');
  writeFileSync(file, pem);
  return file;
}
