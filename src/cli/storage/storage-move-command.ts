import type { CopiedContent, MoveListener } from '../../app/storage-move.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable } from '../command.ts';
import { counted } from '../policy/check-command.ts';
import { bySettings } from '../settings-of.ts';
import { JSON_OPTION, namedLines, printJson } from '../terminal-text.ts';

const OPTIONS = { 'dry-run': { type: 'boolean' }, ...JSON_OPTION } as const;

/** Moves the store of a stopped gateway into a database. */
export const storageMoveCommand: Command = {
  name: 'storage move',
  usage: '[--dry-run] [--json]',
  summary:
    'Moves the store of a stopped gateway from GW_DATA_DIR into the PostgreSQL database of GW_DATABASE_URL; broken off at any moment and run again, it goes on.',
  help: `
  Copies every record, every counter, and all settings that the nodes of a database share; what concerns this node alone (calls under way,
  events that are not sent) stays in the data folder. Then both sides are counted, and only when they have the same the folder is marked as
  moved. The database has to be empty: of two gateways the counters would mix. A second node begins with an empty data folder.
`,
  run(args, io) {
    const { 'dry-run': dryRun = false, json = false } = parseOptions(args, OPTIONS);
    return bySettings('storage move', io, async ({ databaseUrl, ...config }) => {
      if (databaseUrl === undefined)
        throw new Unusable(
          'GW_DATABASE_URL is not set; it says where to move the store, such as postgres://user:password@host:5432/database',
        );
      const { moveStorage, plannedMove } = await import('../../app/storage-move.ts');
      const place = { ...config, databaseUrl };
      const outcome = dryRun ? await plannedMove(place) : await moveStorage(place, json ? SILENT : stageLines(io));
      if (json) printJson(plain(outcome), io);
      else io.stdout(told(outcome));
      return EXIT_OK;
    });
  },
};

type Outcome = Awaited<ReturnType<typeof import('../../app/storage-move.ts')['moveStorage' | 'plannedMove']>>;

/** As JSON; null where nothing was counted, because it was moved before. */
function plain(outcome: Outcome): object {
  const content = 'content' in outcome ? outcome.content : undefined;
  const totals = content && new Map([...content.counters].map(([space, { totals }]) => [space, totals]));
  return {
    outcome: outcome.kind,
    moved_at: 'at' in outcome ? outcome.at : null,
    records: content?.records ?? null,
    entities: content ? Object.fromEntries(content.entities) : null,
    counters: totals ? Object.fromEntries(totals) : null,
    kept: content ? Object.fromEntries(content.kept) : null,
  };
}

function told(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'done':
      return `This data folder was moved at ${outcome.at}; there is nothing left to do.\n`;
    case 'node':
      return 'This data folder is that of a node of the database already: what it stores is carried there, and nothing is to be moved.\n';
    case 'planned':
      return `${contentLines(outcome.content)}dry run: nothing was changed\n`;
    case 'moved':
      return `counted on both sides: the same\n${keptLine(outcome.content)}Moved. The gateway goes on as a node when it starts with GW_DATABASE_URL.\n`;
  }
}

function contentLines({ records, entities, counters, kept }: CopiedContent): string {
  const totals = [...counters.values()].reduce((sum, one) => sum + one.totals, 0);
  return namedLines([
    ['records', `${records}`],
    ['entities', ofSpaces(entities)],
    ['counters', `${counted(totals, 'total')} of ${counted(counters.size, 'space')}`],
    ['kept in the folder', kept.size === 0 ? undefined : ofSpaces(kept)],
  ]);
}

function keptLine({ kept }: CopiedContent): string {
  return kept.size === 0 ? '' : `kept in the folder, for this node alone: ${ofSpaces(kept)}\n`;
}

function ofSpaces(counts: ReadonlyMap<string, number>): string {
  const all = [...counts.values()].reduce((sum, one) => sum + one, 0);
  return `${all} of ${counted(counts.size, 'space')}`;
}

/** A line for each stage: on a terminal it grows, elsewhere it is printed when the stage is over. */
function stageLines(io: CliIo): MoveListener {
  return {
    onBegin(kind) {
      if (kind === 'goes_on') io.stdout('A move that was broken off goes on.\n');
      if (kind === 'starts_over')
        io.stdout('The gateway has run since the move was broken off: what was copied is removed, and the move begins again.\n');
    },
    onProgress({ stage, done, total, isOver }) {
      const line = `${stage}: ${done} of ${total} copied`;
      if (io.columns !== undefined) io.stdout(`\r${line}`);
      else if (isOver) io.stdout(line);
      if (isOver) io.stdout('\n');
    },
  };
}

const SILENT: MoveListener = { onBegin: () => undefined, onProgress: () => undefined };
