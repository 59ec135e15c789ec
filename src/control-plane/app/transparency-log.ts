import { readFileSync } from 'node:fs';
import type { Clock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type LogKey, logKeysOf } from '../../ledger/log-entry.ts';
import { enterInLog } from '../../outbound/destinations/log-entry-post.ts';
import type { TransparencyLog } from '../state/org-log-entries.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';
import { openOwnDoor } from './own-door.ts';

const INTERVAL_MS = 3_600_000;

/** Where roots are entered, and what closes its connections. */
export interface OpenedLog {
  readonly transparencyLog: TransparencyLog | undefined;
  readonly close: () => Promise<void>;
}

/**
 * The log of `CP_REKOR_URL`, asked through the door by which everything leaves; the operator has named its address.
 * @throws Error for a person, when `CP_REKOR_PUBLIC_KEY_FILE` cannot be used or is not set
 */
export function openTransparencyLog(
  { rekorUrl, rekorInterval = INTERVAL_MS, rekorPublicKeyFile }: ControlPlaneConfig,
  ground: { readonly clock: Clock; readonly log: Logger },
): OpenedLog {
  if (rekorUrl === undefined) return { transparencyLog: undefined, close: async () => undefined };
  const keys = readLogKeys(rekorPublicKeyFile);
  const { door, close } = openOwnDoor(ground);
  return { transparencyLog: { enter: enterInLog(door, rekorUrl), intervalMs: rekorInterval, keys }, close };
}

function readLogKeys(file: string | undefined): readonly LogKey[] {
  if (file === undefined) throw new Error('CP_REKOR_PUBLIC_KEY_FILE: is needed with CP_REKOR_URL: whose entries are taken');
  try {
    return logKeysOf(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`CP_REKOR_PUBLIC_KEY_FILE: ${file} cannot be used: ${messageOf(error)}`, { cause: error });
  }
}
