import { readFile, stat } from 'node:fs/promises';
import { messageOf } from '../base/lib/thrown.ts';
import { type CheckedRecord, checkRecord } from '../record/verify-record.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from './command.ts';
import { parseWithOne } from './parse-options.ts';

const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** Recomputes the hash of one record without any gateway (decision 7.1). */
export const verify: Command = {
  name: 'verify',
  usage: '<record.json | -> [--json]',
  summary: 'Recomputes the hash of a record, as GET /v1/records/{id} gives it; exit code 0 verified, 1 not, 2 unusable.',
  async run(args, io) {
    const { one: source, values } = parseWithOne(args, { json: { type: 'boolean' } }, 'it takes one file, or - for standard input');
    let checked: CheckedRecord;
    try {
      checked = checkRecord(await read(source, io));
    } catch (error) {
      io.stderr(`gw verify: ${source === '-' ? 'standard input' : source}: ${messageOf(error)}\n`);
      return EXIT_USAGE;
    }
    const { recordId, stored, computed } = checked;
    if (values.json === true) {
      io.stdout(`${JSON.stringify({ record_id: recordId, verified: stored === computed, stored, computed }, null, 2)}\n`);
      return stored === computed ? EXIT_OK : EXIT_NO;
    }
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
