/*
 * How the embedded store of a data folder is moved into a PostgreSQL database: opened, copied, counted, ended. What
 * says that it was is in the folder what says it of every node.
 */
import type { Clock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { EmbeddedStore } from '../embedded/embedded-store.ts';
import { openEmbeddedStore } from '../embedded/open-embedded-store.ts';
import { FolderClaims, placeOfFolder } from '../node/folder-claims.ts';
import { isNodeSpace } from '../node/node-spaces.ts';
import { OpeningRefused } from '../postgres/database-errors.ts';
import { type DatabaseLook, type LookOptions, lookAtDatabase } from '../postgres/database-look.ts';
import { openPostgresStore } from '../postgres/open-postgres-store.ts';
import { type MoveBeginning, type MovedFolder, notEmpty, type StoreMover } from '../postgres/store-mover.ts';
import { type CopiedContent, type CopyOptions, type CopyProgress, contentOf, copyStore, differencesOf } from './store-copy.ts';

export type { CopiedContent, CopyProgress, DatabaseLook };
export { lookAtDatabase };

/** The store of a folder, opened to be moved. */
export type MovedStore = EmbeddedStore;

/** A gateway that does not run, and the database that it is to have. */
export interface MovedGateway extends LookOptions {
  /** The node's name. */
  readonly node: string;
  readonly dataDir: string;
}

export interface MoveOptions extends MovedGateway {
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'error'>;
  readonly onBegin: (kind: MoveBeginning['kind'], content: CopiedContent) => void;
  readonly onProgress: (progress: CopyProgress) => void;
  /** Of a page, which is one transaction. */
  readonly limits?: CopyOptions['limits'];
}

/** What leaves nothing to do: the folder was moved, at `at` (ISO 8601), or has been a node from the beginning. */
export type NothingToMove = { readonly kind: 'done'; readonly at: string } | { readonly kind: 'node' };

export type MoveOutcome = NothingToMove | { readonly kind: 'moved'; readonly at: string; readonly content: CopiedContent };

/**
 * Opens the store of a folder that no gateway runs on.
 * @throws StoreError, `in_use` while one does; the system's error
 */
export function openMoved(dir: string, { clock, log }: { readonly clock: Clock; readonly log: Logger }): Promise<MovedStore> {
  return openEmbeddedStore({ dir, clock, log, fsync: 'always' });
}

/**
 * Whether a folder is that of a node already; a gateway may run on it. Undefined: its store has to be moved.
 * @throws OpeningRefused where the database does not open; Error where it is not the folder's
 */
export async function nothingToMove({ dataDir, ...options }: MovedGateway): Promise<NothingToMove | undefined> {
  const { known, hasHistory } = await FolderClaims.read(dataDir);
  if (!hasHistory) return undefined;
  return (
    inDatabase(await lookAtDatabase(options), known) ??
    Promise.reject(
      new Error(
        'this data folder is that of a node already, and this database does not know it: GW_DATABASE_URL names another one, or an older state of it',
      ),
    )
  );
}

function inDatabase({ moves, nodes }: DatabaseLook, known: readonly string[]): NothingToMove | undefined {
  const at = moves.find(({ folder }) => known.includes(folder))?.finishedAt;
  if (at !== undefined) return { kind: 'done', at };
  return nodes.some(({ incarnation, position }) => known.includes(incarnation) && position !== '') ? { kind: 'node' } : undefined;
}

/**
 * Counts what a move would copy, and looks whether the database would take it; changes neither.
 * @throws OpeningRefused
 */
export async function plannedContent(source: MovedStore, { dataDir, ...options }: MovedGateway): Promise<NothingToMove | CopiedContent> {
  const { known } = await FolderClaims.read(dataDir);
  const look = await lookAtDatabase(options);
  const nothing = inDatabase(look, known);
  if (nothing !== undefined) return nothing;
  const { nodes, moves, holds } = look;
  const other = nodes.find(({ incarnation }) => !known.includes(incarnation)) ?? moves.find(({ folder }) => !known.includes(folder));
  if (other !== undefined) throw notEmpty(`has the node ${other.node} already`);
  if (holds[0] !== undefined && moves.length === 0) throw notEmpty(`has ${holds[0]} already`);
  return contentOf(source, isNodeSpace);
}

/**
 * Moves a store, or goes on with what was moved before. Then the folder says that it is that of a node.
 * @param source nobody writes to it meanwhile; stays as it is, and open
 * @throws OpeningRefused for a database that does not open or has something of others; Error in one line where the copy
 * broke off, or is not whole; the system's error when the folder cannot be written
 */
export async function moveStore(source: MovedStore, options: MoveOptions): Promise<MoveOutcome> {
  const { dataDir, node, url, clock, log, openPools } = options;
  const database = await openPostgresStore({ url, clock, log, ...(openPools && { openPools }) });
  try {
    const claims = await FolderClaims.read(dataDir);
    const [before] = claims.known;
    const incarnation = before ?? uuidv7(clock.now());
    if (before === undefined) await claims.claims(incarnation);
    const folder: MovedFolder = { node, incarnation, known: claims.known, place: placeOfFolder(dataDir) };
    const outcome = await goingOn(() => moveInto(database.mover(folder), source, options));
    if (!claims.hasHistory) await claims.claimed(incarnation);
    return outcome;
  } finally {
    await database.close();
  }
}

async function moveInto(mover: StoreMover, source: MovedStore, { onBegin, onProgress, limits }: MoveOptions): Promise<MoveOutcome> {
  const { begin, end } = source.extent;
  const beginning = await mover.begin(`${begin} ${end}`);
  if (beginning.kind === 'done' || beginning.kind === 'node') return beginning;
  const content = await contentOf(source, isNodeSpace);
  onBegin(beginning.kind, content);
  await copyStore(source, { mover, from: beginning.place, content, staysHere: isNodeSpace, onProgress, ...(limits && { limits }) });
  const differences = differencesOf(content, await mover.count());
  if (differences.length > 0) throw new NotWhole(differences);
  return { kind: 'moved', at: await mover.finish(end), content };
}

/** Says of what has failed that it goes on. */
async function goingOn<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NotWhole || error instanceof OpeningRefused) throw error;
    const [line] = messageOf(error).split('\n', 1);
    throw new Error(`the move broke off: ${line}. What is copied stays: run the same again, and it goes on from there`, { cause: error });
  }
}

/** The two sides of a move do not have the same. */
class NotWhole extends Error {
  constructor(differences: readonly string[]) {
    super(
      `the database does not have what the data folder has: ${differences.join('; ')}. Nothing is moved, and the folder is as it was: empty the database, and run the same again`,
    );
    this.name = 'NotWhole';
  }
}
