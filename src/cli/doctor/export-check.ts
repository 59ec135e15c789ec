import type { DeadLetter } from '../../base/model/export-destination.ts';
import { findingsOf } from './ask-admin.ts';
import { type DoctorCheck, type Finding, ok, type Patient, warning } from './finding.ts';

/** A page of the newest; more of them only make the count larger. */
const LOOKED_AT = 500;

/** Whether each receiver takes what is exported to it (decision 11.3): the log does not tell of one that does not. */
export const EXPORT_CHECK: DoctorCheck = {
  id: 'exports',
  looksAt: 'export destinations that did not take events after all tries, and the last reason (needs the admin token)',
  look: exports,
};

function exports(patient: Patient): Promise<readonly Finding[]> {
  const path = `/v1/admin/export/dead-letters?limit=${LOOKED_AT}`;
  return findingsOf<{ readonly items: readonly DeadLetter[] }>(EXPORT_CHECK.id, patient, path, ({ items }) => exportFindings(items));
}

/** @param letters the newest first */
export function exportFindings(letters: readonly DeadLetter[]): readonly Finding[] {
  const { id } = EXPORT_CHECK;
  if (letters.length === 0) return [ok(id, 'no event waits for a destination that did not take it')];
  const destinations = new Map<string, readonly DeadLetter[]>();
  for (const letter of letters) destinations.set(letter.destination_id, [...(destinations.get(letter.destination_id) ?? []), letter]);
  const then = 'see to the receiver, then send them again (docs/guides/exports.md, When a receiver is away)';
  return [...destinations].map(([destination, [last, ...older]]) => {
    const count = letters.length >= LOOKED_AT ? `${older.length + 1} or more` : String(older.length + 1);
    return warning(
      id,
      `${count} event(s) were not taken by ${destination}, the last at ${last?.at}: ${last?.detail || last?.reason}`,
      then,
    );
  });
}
