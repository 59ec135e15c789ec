import type { FolderStatus, StorageStatus } from '../../app/storage-status.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type Command, EXIT_OK } from '../command.ts';
import { counted } from '../policy/check-command.ts';
import { bySettings } from '../settings-of.ts';
import { JSON_OPTION, namedLines, printJsonDocument } from '../terminal-text.ts';

/** Says where a gateway keeps what it stores. */
export const storageStatusCommand: Command = {
  name: 'storage status',
  usage: '[--json]',
  summary:
    'Shows where the gateway of GW_DATA_DIR keeps what it stores, also while it runs: in the folder (embedded) or in a database (postgres), with its nodes.',
  run(args, io) {
    const { json = false } = parseOptions(args, JSON_OPTION);
    return bySettings('storage status', io, async (config) => {
      const { journalPlace, storageStatus } = await import('../../app/storage-status.ts');
      const status = await storageStatus(config);
      if (json) printJsonDocument(plain(status), io);
      else io.stdout(told(status, journalPlace));
      return EXIT_OK;
    });
  },
};

function plain({ folder, database }: StorageStatus): object {
  return {
    storage: database === undefined ? 'embedded' : 'postgres',
    folder: folder === undefined ? null : { path: folder.path, format: folder.format, bytes: folder.bytes, is_of_node: folder.isOfNode },
    database:
      database === undefined
        ? null
        : {
            host: database.name.host,
            port: Number(database.name.port),
            name: database.name.database,
            tables_version: database.version,
            tables_known: database.knows,
            records: database.records,
            bytes: database.bytes,
            nodes: database.nodes.map(({ node, version, seenAt, position, backlog }) => ({
              node,
              version: version || null,
              seen_at: seenAt,
              carried_to: position || null,
              backlog: backlog.records,
            })),
            moves: database.moves.map(({ node, stage, finishedAt }) => ({
              node,
              stage: finishedAt === undefined ? stage : 'done',
              finished_at: finishedAt ?? null,
            })),
          },
  };
}

type PlaceOf = (position: string) => { readonly segment: number; readonly offset: number } | undefined;

function told({ folder, database }: StorageStatus, placeOf: PlaceOf): string {
  if (database === undefined) return namedLines([['storage', 'embedded'], ...folderRows(folder)]);
  const { name, version, knows, nodes, moves, records, bytes } = database;
  return namedLines([
    ['storage', 'postgres'],
    ['database', `${name.database} at ${name.host} port ${name.port}`],
    ['tables', version === 0 ? 'none yet' : `version ${version}${version === knows ? '' : `, this program has version ${knows}`}`],
    ['records', `${records}`],
    ['size', `${bytes} bytes`],
    ...nodes.map(
      ({ node, seenAt, position, backlog }): Row => [
        'node',
        `${node}, seen ${seenAt}, ${carriedText(placeOf(position))}${backlog.records === 0 ? '' : `, ${counted(backlog.records, 'record')} behind`}`,
      ],
    ),
    ...moves.map(
      ({ node, stage, finishedAt }): Row => ['move', `${node}, ${finishedAt === undefined ? `not over: ${stage}` : `over ${finishedAt}`}`],
    ),
    ...folderRows(folder),
  ]);
}

type Row = readonly [name: string, text: string | undefined];

function folderRows(folder: FolderStatus | undefined): readonly Row[] {
  if (folder === undefined) return [];
  const { path, format, bytes, isOfNode } = folder;
  return [
    ['folder', `${path}, format ${format}, ${bytes} bytes`],
    ['of', isOfNode ? 'a node of a database' : 'a gateway that is alone'],
  ];
}

function carriedText(place: ReturnType<PlaceOf>): string {
  return place === undefined ? 'nothing carried' : `carried up to segment ${place.segment}, offset ${place.offset}`;
}
