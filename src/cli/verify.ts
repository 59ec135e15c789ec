import { readFile, stat } from 'node:fs/promises';
import { messageOf } from '../base/lib/thrown.ts';
import { type CheckedRecord, checkRecord } from '../record/verify-record.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from './command.ts';

const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** Recomputes the hash of one record without any gateway (decision 7.1). */
export const verify: Command = {
  name: 'verify',
  usage: '<record.json | ->',
  summary: 'Recomputes the hash of a record, as GET /v1/records/{id} gives it; exit code 0 verified, 1 not, 2 unusable.',
  async run(args, io) {
    const [source] = args;
    if (source === undefined || args.length !== 1) {
      io.stderr('usage: gw verify <record.json | ->\n');
      return EXIT_USAGE;
    }
    let checked: CheckedRecord;
    try {
      checked = checkRecord(await read(source, io));
    } catch (error) {
      io.stderr(`gw verify: ${source === '-' ? 'standard input' : source}: ${messageOf(error)}\n`);
      return EXIT_USAGE;
    }
    const { recordId, stored, computed } = checked;
    if (stored === computed) {
      io.stdout(`verified  ${recordId}\n  record_hash  ${stored}\n`);
      return EXIT_OK;
    }
    io.stdout(`MISMATCH  ${recordId}\n  in the record  ${stored}\n  recomputed     ${computed}\n`);
    return EXIT_NO;
  },
};

async function read(source: string, io: CliIo): Promise<Uint8Array> {
  if (source === '-') return io.stdin(MAX_RECORD_BYTES);
  if ((await stat(source)).size > MAX_RECORD_BYTES) throw new Error(`the file is larger than ${MAX_RECORD_BYTES} bytes`);
  return readFile(source);
}
