import { readFile, stat } from 'node:fs/promises';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CanonicalJsonError, canonicalJson } from '../base/lib/jcs.ts';
import { parseSafeJson } from '../base/lib/safe-json.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
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
      io.stderr(`gw verify: ${source === '-' ? 'standard input' : source}: ${error instanceof Error ? error.message : String(error)}\n`);
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

export interface CheckedRecord {
  /** As the record says, quoted when it is odd. */
  readonly recordId: string;
  readonly stored: string;
  readonly computed: string;
}

/**
 * Recomputes the hash of a record's JSON text: SHA-256 of the RFC 8785 form of everything but `record_hash`.
 * @throws Error when the text is no record: not JSON, without `record_hash`, a name that stands twice, numbers that JSON readers disagree about
 */
export function checkRecord(bytes: Uint8Array): CheckedRecord {
  const record = parseRecord(bytes);
  const { record_hash: stored, record_id: id, ...rest } = record;
  if (typeof stored !== 'string' || !/^[0-9a-f]{64}$/.test(stored))
    throw new Error('there is no record_hash of 64 hexadecimal digits in it');
  const hashed = id === undefined ? rest : { ...rest, record_id: id };
  try {
    return { recordId: idText(id), stored, computed: sha256Hex(canonicalJson(hashed)) };
  } catch (error) {
    if (error instanceof CanonicalJsonError) throw new Error(`it has no canonical form: ${error.message}`, { cause: error });
    throw error;
  }
}

function parseRecord(bytes: Uint8Array): Record<string, unknown> {
  let parsed: ReturnType<typeof parseSafeJson>;
  try {
    parsed = parseSafeJson(bytes, { malformed: 'invalid_request', exactIntegers: true });
  } catch (error) {
    if (error instanceof GatewayError) throw new Error(`it is not a record: ${error.message}`, { cause: error });
    throw error;
  }
  const { value, text, doubt } = parsed;
  if (doubt !== undefined) throw new Error(`it can be read in two ways: ${doubt.message}`);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('it is not a JSON object');
  // A reader sees one of two equal names, the hash covers the other: what stands there twice is not verified.
  if (colonsOutsideStrings(text) !== countNames(value)) throw new Error('it can be read in two ways: a name stands twice in one object');
  return { ...value };
}

function colonsOutsideStrings(text: string): number {
  return text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1;
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const members: unknown[] = Object.values(value);
  return members.reduce<number>((sum, member) => sum + countNames(member), Array.isArray(value) ? 0 : members.length);
}

function idText(id: unknown): string {
  return typeof id === 'string' && /^[\x21-\x7e]{1,128}$/.test(id) ? id : '(no record_id)';
}

async function read(source: string, io: CliIo): Promise<Uint8Array> {
  if (source === '-') return io.stdin(MAX_RECORD_BYTES);
  if ((await stat(source)).size > MAX_RECORD_BYTES) throw new Error(`the file is larger than ${MAX_RECORD_BYTES} bytes`);
  return readFile(source);
}
