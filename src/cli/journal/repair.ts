import type { RepairReport } from '../../app/journal.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { onDataFolder } from './data-command.ts';

const OPTIONS: ReadonlySet<string> = new Set(['--dry-run', '--rebuild-index']);

/** Repairs the journal of a stopped gateway. */
export const repair: Command = {
  name: 'journal repair',
  usage: '[--dry-run] [--rebuild-index]',
  summary:
    'Repairs the journal of a stopped gateway: damaged files are copied aside, every whole record is kept, and it says what was lost. --rebuild-index also makes the index anew from the journal.',
  run(args, io) {
    const unknown = args.find((arg) => !OPTIONS.has(arg));
    if (unknown !== undefined) throw new UsageError(`it does not know ${JSON.stringify(unknown)}`);
    const options = { dryRun: args.includes('--dry-run'), rebuildIndex: args.includes('--rebuild-index') };
    return onDataFolder('journal repair', io, async (dataDir) => {
      const { repair: run, segmentName } = await import('../../app/journal.ts');
      tell(await run(dataDir, options), options.dryRun, segmentName, io);
      return EXIT_OK;
    });
  },
};

function tell(report: RepairReport, dryRun: boolean, segmentName: (segment: number) => string, io: CliIo): void {
  const { segments, recordsKept, setAside } = report;
  const lines = [...segments.flatMap((plan) => segmentLines(plan, segmentName)), ...besides(report, segmentName)];
  if (lines.length === 0) lines.push(`nothing is damaged: ${recordsKept} record(s)`);
  else lines.push(...lossLines(report));
  if (dryRun) lines.push('dry run: nothing was changed');
  else if (setAside !== undefined) lines.push(`what was damaged is in ${setAside}`);
  io.stdout(`${lines.join('\n')}\n`);
}

function segmentLines(
  { segment, header, fills, records, dropped }: RepairReport['segments'][number],
  segmentName: (segment: number) => string,
): readonly string[] {
  const what = header === 'missing' ? 'missing, made anew without records' : `${records} record(s) kept, ${fills.length} gap(s) covered`;
  return [
    `${segmentName(segment)}  ${what}${header === 'damaged' ? ', header written anew' : ''}`,
    ...dropped.map((id) => `    record ${id} can be read and not kept: what lies before it is too short`),
  ];
}

function besides({ forgottenBefore, formatDamaged, index }: RepairReport, segmentName: (segment: number) => string): readonly string[] {
  const lines: string[] = [];
  if (forgottenBefore !== undefined)
    lines.push(`the segments before ${segmentName(forgottenBefore)} are gone: their records are forgotten`);
  if (formatDamaged) lines.push('the file "format" is written anew');
  if (index === 'rebuilt')
    lines.push('the index is made anew from the journal: settings and totals are those of the commits that can be read');
  return lines;
}

function lossLines({ recordsKept, recordsLost, bytesLost, index, segments }: RepairReport): readonly string[] {
  const lost = recordsLost === undefined ? 'the records' : `${recordsLost} record(s) that the index knows`;
  const lines = [`${recordsKept} record(s) kept; lost: ${lost} in ${bytesLost} unreadable bytes`];
  if (index === 'kept' && segments.length > 0)
    lines.push(
      'settings and totals keep what lost records had changed in the index (--rebuild-index makes them those of the records that are left)',
    );
  return lines;
}
