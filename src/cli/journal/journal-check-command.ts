import type { JournalFinding } from '../../app/journal.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { asTyped } from '../program-name.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';
import { onDataFolder } from './repair.ts';

/** Says which segments of the journal are whole. */
export const check: Command = {
  name: 'journal check',
  usage: '[--json]',
  summary:
    'Reads the whole journal of GW_DATA_DIR, also while the gateway runs: which segments are whole, and what is lost; exit code 0 whole, 1 damaged or unreadable.',
  run(args, io) {
    const { json = false } = parseOptions(args, JSON_OPTION);
    return onDataFolder('journal check', io, (dataDir) => (json ? checkAsJson(dataDir, io) : checkAll(dataDir, io)));
  },
};

async function checkAll(dataDir: string, io: CliIo): Promise<number> {
  // The store's engine is loaded by the commands that need it.
  const { findingsOf, segmentName } = await import('../../app/journal.ts');
  const total = { segments: 0, records: 0, damaged: 0, lost: 0 };
  for await (const { segment, state, records, notes, damaged, lost } of bySegment(findingsOf(dataDir))) {
    io.stdout(`${segmentName(segment)}  ${notes.length === 0 ? 'whole, ' : ''}${state}\n`);
    for (const note of notes) io.stdout(`    ${terminalText(note)}\n`);
    total.segments += 1;
    total.records += records;
    total.damaged += damaged;
    total.lost += lost;
  }
  io.stdout(`${total.records} record(s) in ${total.segments} segment(s) can be read`);
  if (total.damaged === 0) {
    io.stdout('; nothing is damaged\n');
    return EXIT_OK;
  }
  io.stdout(`; ${total.damaged} place(s) are damaged, ${total.lost} bytes cannot be read\n`);
  io.stdout(asTyped('"gw journal repair --dry-run" says what a repair would do; stop the gateway for it\n', io.program));
  return EXIT_NO;
}

async function checkAsJson(dataDir: string, io: CliIo): Promise<number> {
  const { findingsOf, segmentName } = await import('../../app/journal.ts');
  const segments: object[] = [];
  const total = { records: 0, damaged: 0, bytes_lost: 0 };
  for await (const { segment, records, notes, damaged, lost } of bySegment(findingsOf(dataDir))) {
    segments.push({ segment: segmentName(segment), records, damaged, bytes_lost: lost, notes });
    total.records += records;
    total.damaged += damaged;
    total.bytes_lost += lost;
  }
  printJson({ whole: total.damaged === 0, ...total, segments }, io);
  return total.damaged === 0 ? EXIT_OK : EXIT_NO;
}

interface CheckedSegment {
  readonly segment: number;
  readonly state: string;
  readonly records: number;
  readonly notes: readonly string[];
  /** Places, and the bytes of them that cannot be read. */
  readonly damaged: number;
  readonly lost: number;
}

async function* bySegment(findings: AsyncIterable<JournalFinding>): AsyncGenerator<CheckedSegment> {
  let before = '';
  let [damaged, lost] = [0, 0];
  let notes: string[] = [];
  for await (const finding of findings) {
    const { kind, segment } = finding;
    if (kind === 'record') before = finding.recordId;
    if (kind === 'damage') [damaged, lost] = [damaged + 1, lost + finding.bytes];
    const note = noteOf(finding, before);
    if (note !== undefined) notes.push(note);
    if (kind !== 'segment' && !isMissing(finding)) continue;
    const [records, state] =
      kind === 'segment' ? [finding.records, `${finding.records} record(s), ${finding.bytes} bytes`] : [0, 'missing'];
    yield { segment, state, records, notes, damaged, lost };
    [damaged, lost, notes] = [0, 0, []];
  }
}

function isMissing(finding: JournalFinding): boolean {
  return finding.kind === 'damage' && finding.bytes === 0;
}

function noteOf(finding: JournalFinding, before: string): string | undefined {
  const behind = before === '' ? '' : `, behind record ${before}${timeIn(before)}`;
  switch (finding.kind) {
    case 'damage':
      return isMissing(finding)
        ? `DAMAGED: the file is not there${behind}`
        : `DAMAGED at offset ${finding.offset}: ${finding.bytes} bytes, ${finding.message}${behind}`;
    case 'torn':
      return `an unfinished write of ${finding.bytes} bytes at the end, offset ${finding.offset}: being written, or cut at the next start`;
    case 'filler':
      return `offset ${finding.offset}: ${finding.bytes} bytes were lost before, and covered by a repair`;
    default:
      return undefined;
  }
}

/** A record's id begins with the time at which its request came. */
function timeIn(recordId: string): string {
  const ms = /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(recordId) ? Number.parseInt(recordId.slice(0, 8) + recordId.slice(9, 13), 16) : Number.NaN;
  return Number.isNaN(ms) ? '' : ` of ${timestamp(ms)}`;
}
