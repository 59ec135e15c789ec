import { messageOf } from '../../base/lib/gateway-error.ts';
import { NOTE_TYPE, type NoteKey, readNoteKey } from '../../ledger/signed-note.ts';
import type { CheckpointRules } from '../state/org-checkpoints.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';

const INTERVAL_MS = 300_000;

/**
 * How checkpoints are named, published and cosigned.
 * @throws Error for a person, when `CP_WITNESS_KEYS` cannot be used
 */
export function checkpointRules({ ledgerName, checkpointInterval = INTERVAL_MS, witnessKeys = [] }: ControlPlaneConfig): CheckpointRules {
  const witnesses = witnessKeys.map(readWitness);
  const twice = witnesses.find(({ name }, at) => witnesses.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) throw new Error(`CP_WITNESS_KEYS: there are two keys of the name ${twice.name}`);
  return { ledgerName, intervalMs: checkpointInterval, witnesses };
}

function readWitness(vkey: string): NoteKey {
  try {
    return readNoteKey(vkey, NOTE_TYPE.cosignature);
  } catch (error) {
    throw new Error(`CP_WITNESS_KEYS: ${messageOf(error)}`, { cause: error });
  }
}
