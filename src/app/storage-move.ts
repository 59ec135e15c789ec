import type { Config } from '../base/config/config.ts';
import { systemClock } from '../base/lib/clock.ts';
import { silentLogger } from '../base/lib/log.ts';
import {
  type CopiedContent,
  type MovedGateway,
  type MovedStore,
  type MoveOptions,
  type MoveOutcome,
  moveStore,
  type NothingToMove,
  nothingToMove,
  openMoved,
  plannedContent,
} from '../storage/drivers/store-move.ts';
import { requireStore, storeFolder } from './data-folder.ts';
import { openWriterId } from './writer-id.ts';

export type { CopiedContent, MoveOutcome };

/** Settings that say what is moved, and where to. */
type MoveConfig = Pick<Config, 'dataDir' | 'nodeId'> & { readonly databaseUrl: string };

/** Told what goes on. */
export type MoveListener = Pick<MoveOptions, 'onBegin' | 'onProgress'>;

const QUIET = { clock: systemClock, log: silentLogger };

/**
 * Moves the store of a stopped gateway into the database of its settings. Broken off at any moment, the next call goes
 * on.
 * @throws Error in one line: there is no store, or a gateway runs on it; the database does not open, has something of
 * others, or the copy broke off or is not whole
 */
export function moveStorage(config: MoveConfig, listener: MoveListener): Promise<MoveOutcome> {
  return onStore(config, async (source, gateway) => {
    // Its calls under way bear this name, and the node's next start looks for them by it.
    await openWriterId(config, { store: source, isShared: false }, systemClock);
    return moveStore(source, { ...QUIET, ...listener, ...gateway });
  });
}

/**
 * Counts what {@link moveStorage} would copy, and looks whether the database would take it; changes neither.
 * @throws as {@link moveStorage}
 */
export function plannedMove(config: MoveConfig): Promise<NothingToMove | { readonly kind: 'planned'; readonly content: CopiedContent }> {
  return onStore(config, async (source, gateway) => {
    const content = await plannedContent(source, gateway);
    return 'kind' in content ? content : { kind: 'planned', content };
  });
}

async function onStore<T>(
  { dataDir, nodeId: node, databaseUrl: url }: MoveConfig,
  work: (source: MovedStore, gateway: MovedGateway) => Promise<T>,
): Promise<T | NothingToMove> {
  await requireStore(dataDir);
  const gateway = { dataDir, node, url };
  const nothing = await nothingToMove(gateway);
  if (nothing !== undefined) return nothing;
  const source = await openMoved(storeFolder(dataDir), QUIET);
  try {
    return await work(source, gateway);
  } finally {
    await source.close();
  }
}
