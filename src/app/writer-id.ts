import { join } from 'node:path';
import type { Clock } from '../base/lib/clock.ts';
import { inFolder } from '../base/lib/file-system.ts';
import { uuidv7 } from '../base/lib/ids.ts';
import { nodeThatWrote } from '../services/keeper/node-register.ts';
import type { OpenedStore } from '../storage/drivers/open-store.ts';
import { onceMade } from './secrets.ts';

/** In the data folder. */
const WRITER_ID_FILE = 'writer-id';

/**
 * The name of this process as one that writes to its store: of its calls under way, of its numbered events, of its
 * leases. It is made once for a data folder and belongs to that, and not to the node: a node's name may be another at
 * the next start (that of a container), and what was left behind is still this writer's. A folder of a version that had
 * no such name goes on as the node that wrote there.
 * @throws Error that names the setting when the folder cannot be used
 */
export async function openWriterId(
  { dataDir, nodeId }: { readonly dataDir: string; readonly nodeId: string },
  { store, isShared }: Pick<OpenedStore, 'store' | 'isShared'>,
  clock: Clock,
): Promise<string> {
  // In a shared store the nodes that are found are others.
  const before = isShared ? undefined : await nodeThatWrote(store, nodeId);
  return inFolder('GW_DATA_DIR', dataDir, () => onceMade(join(dataDir, WRITER_ID_FILE), () => before ?? uuidv7(clock.now())));
}
