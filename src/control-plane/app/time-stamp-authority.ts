import { readFileSync } from 'node:fs';
import type { Clock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { certificatesOf } from '../../ledger/time-stamp-signer.ts';
import { askTimeStamps } from '../../outbound/destinations/time-stamp-post.ts';
import type { TimeStampAuthority } from '../state/org-timestamps.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';
import { openOwnDoor } from './own-door.ts';

const INTERVAL_MS = 3_600_000;

/** What stamps roots, and what closes its connections. */
export interface OpenedAuthority {
  readonly authority: TimeStampAuthority | undefined;
  readonly close: () => Promise<void>;
}

/**
 * The authority of `CP_TSA_URL`, asked through the door by which everything leaves; the operator has named its address.
 * @throws Error for a person, when `CP_TSA_CA_FILE` cannot be used
 */
export function openAuthority(
  { tsaUrl, tsaInterval = INTERVAL_MS, tsaCaFile }: ControlPlaneConfig,
  ground: { readonly clock: Clock; readonly log: Logger },
): OpenedAuthority {
  if (tsaUrl === undefined) return { authority: undefined, close: async () => undefined };
  const trusted = tsaCaFile === undefined ? undefined : readTrusted(tsaCaFile);
  const { door, close } = openOwnDoor(ground);
  return { authority: { ask: askTimeStamps(door, tsaUrl), intervalMs: tsaInterval, trusted }, close };
}

function readTrusted(file: string): ReturnType<typeof certificatesOf> {
  try {
    return certificatesOf(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`CP_TSA_CA_FILE: ${file} cannot be used: ${messageOf(error)}`, { cause: error });
  }
}
