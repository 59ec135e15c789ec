import type { RepairReport } from '../../app/journal.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { bySettings } from '../settings-of.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';

const OPTIONS = { 'dry-run': { type: 'boolean' }, 'rebuild-index': { type: 'boolean' }, ...JSON_OPTION } as const;

/** Repairs the journal of a stopped gateway. */
export const repair: Command = {
  name: 'journal repair',
  usage: '[--dry-run] [--rebuild-index] [--json]',
  summary:
    'Repairs the journal of a stopped gateway: damaged files are copied aside, every whole record is kept, and it says what was lost. --rebuild-index also makes the index anew from the journal.',
  run(args, io) {
    const { 'dry-run': dryRun = false, 'rebuild-index': rebuildIndex = false, json = false } = parseOptions(args, OPTIONS);
    return onDataFolder('journal repair', io, async (dataDir) => {
      const { repair: run, segmentName } = await import('../../app/journal.ts');
      const report = await run(dataDir, { dryRun, rebuildIndex });
      if (json) printJson(plain(report, dryRun, segmentName), io);
      else tell(report, dryRun, segmentName, io);
      return EXIT_OK;
    });
  },
};

/** As JSON; null where nobody knows, or nothing was. */
function plain(report: RepairReport, dryRun: boolean, segmentName: (segment: number) => string): object {
  const { recordsKept, recordsLost, bytesLost, index, forgottenBefore, formatDamaged, setAside } = report;
  return {
    dry_run: dryRun,
    records_kept: recordsKept,
    records_lost: recordsLost ?? null,
    bytes_lost: bytesLost,
    index,
    forgotten_before: forgottenBefore === undefined ? null : segmentName(forgottenBefore),
    format_damaged: formatDamaged,
    set_aside: setAside ?? null,
    segments: report.segments.map(({ segment, header, fills, records, dropped }) => ({
      segment: segmentName(segment),
      header,
      records_kept: records,
      gaps_covered: fills.length,
      records_dropped: dropped,
    })),
  };
}

function tell(report: RepairReport, dryRun: boolean, segmentName: (segment: number) => string, io: CliIo): void {
  const { segments, recordsKept, setAside } = report;
  const lines = [...segments.flatMap((plan) => segmentLines(plan, segmentName)), ...besides(report, segmentName)];
  if (lines.length === 0) lines.push(`nothing is damaged: ${recordsKept} record(s)`);
  else lines.push(...lossLines(report));
  if (dryRun) lines.push('dry run: nothing was changed');
  else if (setAside !== undefined) lines.push(`what was damaged is in ${setAside}`);
  io.stdout(`${lines.map(terminalText).join('\n')}\n`);
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

/** Lets a gateway that doubts the clock believe it. */
export const confirmClock: Command = {
  name: 'journal confirm-clock',
  usage: '[--json]',
  summary:
    'Tells the gateway of GW_DATA_DIR, running or not, that the clock is right after it was off for long: then old records are removed again.',
  run(args, io) {
    const { json = false } = parseOptions(args, JSON_OPTION);
    return onDataFolder('journal confirm-clock', io, async (dataDir) => {
      const { confirm } = await import('../../app/journal.ts');
      const now = await confirm(dataDir);
      if (json) printJson({ confirmed_at: timestamp(now) }, io);
      else io.stdout(`The clock says ${timestamp(now)}, and that is right. The gateway takes it within a minute, or at its next start.\n`);
      return EXIT_OK;
    });
  },
};

/** Runs what works on the data folder that the settings name, and says on one line why it does not. */
export function onDataFolder(name: string, io: CliIo, work: (dataDir: string) => Promise<number>): Promise<number> {
  return bySettings(name, io, ({ dataDir }) => work(dataDir));
}
