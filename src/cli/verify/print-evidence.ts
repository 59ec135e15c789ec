import { timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { WalkedChain } from '../../ledger/chain-walk.ts';
import type { ConsistencyProof } from '../../ledger/consistency-proof.ts';
import type { Cosigner } from '../../ledger/cosignature.ts';
import { cutText } from '../../ledger/ledger-restore.ts';
import { type CheckedRecord, checkRecord } from '../../record/verify-record.ts';
import { type CliIo, EXIT_NO, EXIT_OK, EXIT_RESTORED, Unusable } from '../command.ts';
import { printJson, printJsonDocument, terminalText } from '../terminal-text.ts';
import type { SeenCheckpoint } from './check-checkpoint.ts';
import type { CheckedEvidence } from './check-evidence.ts';

/** Says what was checked and what does not fit. @param isChain roots were given @returns the exit code */
export function printEvidence(checked: CheckedEvidence, { json, isChain }: { json: boolean; isChain: boolean }, io: CliIo): number {
  const verified = checked.problems.length === 0 && checked.cut.length === 0;
  if (json) printJsonDocument(documentOf(checked, verified), io);
  else io.stdout(linesOf(checked, verified, isChain));
  if (checked.problems.length > 0) return EXIT_NO;
  return verified ? EXIT_OK : EXIT_RESTORED;
}

function documentOf(
  { record, proof, chain, growth, stamp, entered, checkpoint, problems, cut, notes }: CheckedEvidence,
  verified: boolean,
): object {
  return {
    ...(record && { record_id: record.recordId }),
    verified,
    ...(record && { stored: record.stored, computed: record.computed }),
    ...(proof && {
      proof: {
        batch_id: proof.batch_id,
        leaf_index: proof.leaf_index,
        leaf_count: proof.leaf_count,
        root: { org_id: proof.root.org_id, sequence: proof.root.sequence, closed_at: proof.root.closed_at, kid: proof.root.sig.kid },
      },
    }),
    ...(chain && { chain: chainShown(chain) }),
    ...(growth && { consistency: { first: growth.first, second: growth.second } }),
    ...(stamp && { stamp }),
    ...(entered && { entered }),
    ...(checkpoint && { checkpoint: shownCheckpoint(checkpoint) }),
    ...(verified ? {} : { problems }),
    ...(cut.length > 0 && { cut }),
    ...(notes.length > 0 && { notes }),
  };
}

function linesOf(
  { record, proof, chain, growth, stamp, entered, checkpoint, problems, cut, notes }: CheckedEvidence,
  verified: boolean,
  isChain: boolean,
): string {
  const of = record !== undefined ? terminalText(record.recordId) : isChain ? 'the chain of roots' : 'the checkpoint';
  // A record that stands alone has one thing to be wrong: both hashes are shown below each other.
  if (record !== undefined && record.stored !== record.computed && problems.length === 1)
    return `MISMATCH  ${of}\n  in the record  ${terminalText(record.stored)}\n  recomputed     ${record.computed}\n`;
  const rows: [string, string][] = [];
  if (record !== undefined) rows.push(['record_hash', record.computed]);
  if (proof !== undefined) {
    const { root } = proof;
    rows.push(['proof', `leaf ${proof.leaf_index} of ${proof.leaf_count} in batch ${proof.batch_id}`]);
    rows.push(['root', `${root.sequence} of ${root.org_id}, closed ${root.closed_at}, signed with ${root.sig.kid}`]);
  }
  if (chain !== undefined) rows.push(...chainRows(chain));
  if (growth !== undefined) rows.push(['tree', grownText(growth)]);
  if (stamp !== undefined) rows.push(['stamp', `root ${stamp.sequence} was there at ${stamp.time}`]);
  if (entered !== undefined) rows.push(['log', `root ${entered.sequence} was entered at ${entered.time}`]);
  if (checkpoint !== undefined) rows.push(...checkpointRows(checkpoint));
  rows.push(...notes.map((note): [string, string] => ['note', note]));
  rows.push(...cut.map((one): [string, string] => ['cut', one]));
  rows.push(...problems.map((problem): [string, string] => ['does not fit', problem]));
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    `${verified ? 'verified  ' : problems.length > 0 ? 'NOT VERIFIED  ' : 'CUT BY A RESTORE  '}${of}`,
    ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${terminalText(text)}`),
    '',
  ].join('\n');
}

function shownCheckpoint({ retired: _noteSaysIt, cosigners, ...checkpoint }: SeenCheckpoint): object {
  return { ...checkpoint, cosigners: cosigners.map(shownCosigner) };
}

function shownCosigner({ witness, seconds }: Cosigner): { readonly witness: string; readonly time: string } {
  return { witness, time: timestamp(seconds * 1000) };
}

function checkpointRows({ origin, tree_size: size, kid, cosigners }: SeenCheckpoint): [string, string][] {
  return [
    ['checkpoint', `${size} hashes of ${origin}, signed with ${kid}`],
    ...cosigners.map(shownCosigner).map(({ witness, time }): [string, string] => ['cosigned', `by ${witness} at ${time}`]),
  ];
}

function chainRows(chain: WalkedChain): [string, string][] {
  const { first, digest, cuts } = chain;
  return [
    ['chain', chainText(chain)],
    ...(first > 1 ? [['', `what was before root ${first} is not shown by them`] satisfies [string, string]] : []),
    ['last root', digest],
    ...cuts.map((cut): [string, string] => ['restored', cutText(cut)]),
  ];
}

function chainShown({ org_id, first, sequence, digest, cuts }: WalkedChain): object {
  return { org_id, first, last: sequence, digest, ...(cuts.length > 0 && { restores: cuts }) };
}

function chainText({ first, sequence, org_id: orgId, leap, cuts }: WalkedChain): string {
  const whole = cuts.length === 0 ? 'without a gap' : 'without a gap but for what a restore has cut';
  const left = leap === undefined ? whole : `those between ${leap.from} and ${leap.to} left out`;
  return `roots ${first} to ${sequence} of ${orgId}, ${left}`;
}

function grownText({ first, second }: ConsistencyProof): string {
  return `root ${second.sequence} has ${second.tree_size} hashes, of which the first ${first.tree_size} are those of root ${first.sequence}`;
}

/* Several records, one a line, as `gw logs --json --whole` prints them and `records.ndjson` of an export holds them. */
/** A line of a file, and its number. */
export interface RecordLine {
  readonly text: string;
  readonly number: number;
}

/** The lines of a text that has a JSON object on each; undefined where it is one record, however it is written. */
export function recordLines(bytes: Uint8Array): readonly RecordLine[] | undefined {
  const lines = Buffer.from(bytes)
    .toString('utf8')
    .split('\n')
    .map((text, at) => ({ text: text.trim(), number: at + 1 }))
    .filter(({ text }) => text !== '');
  const [first] = lines;
  return lines.length > 1 && first?.text.startsWith('{') === true && first.text.endsWith('}') ? lines : undefined;
}

/**
 * Checks the hash of each record and prints a line for it, or with `json` an object.
 * @param name of the file, for messages @returns the exit code: 1 where one does not fit
 * @throws Unusable for a line that is no whole record
 */
export function checkRecordLines(lines: readonly RecordLine[], name: string, json: boolean, io: CliIo): number {
  let wrong = 0;
  for (const { text, number } of lines) {
    const { recordId, stored, computed } = checkedLine(text, `${name}, line ${number}`);
    const verified = stored === computed;
    if (!verified) wrong += 1;
    if (json) printJson({ record_id: recordId, verified, stored, computed }, io);
    else if (verified) io.stdout(`verified  ${terminalText(recordId)}\n`);
    else io.stdout(`MISMATCH  ${terminalText(recordId)}\n  in the record  ${terminalText(stored)}\n  recomputed     ${computed}\n`);
  }
  if (!json) io.stdout(`${lines.length} records: ${lines.length - wrong} verified, ${wrong} not\n`);
  return wrong === 0 ? EXIT_OK : EXIT_NO;
}

function checkedLine(text: string, name: string): CheckedRecord {
  try {
    return checkRecord(text);
  } catch (error) {
    throw new Unusable(`${name}: ${messageOf(error)}`, { cause: error });
  }
}
