import { checkRecord } from '../../src/record/verify-record.ts';

/** Whether a record that was read as JSON has the hash that it states. @throws Error when it states none */
export function isVerified(record: unknown): boolean {
  const { stored, computed } = checkRecord(Buffer.from(JSON.stringify(record)));
  return stored === computed;
}
