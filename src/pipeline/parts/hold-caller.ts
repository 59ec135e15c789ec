import type { Pipeline } from './call-services.ts';
import { callerOf } from './known.ts';
import type { Arrived, Claims } from './parts.ts';
import type { Refusal } from './refusal.ts';
import type { Control } from './stage.ts';

/**
 * Where policy puts the caller aside he is held from now on, and the entry is stored with the record (decision 9.2).
 */
export function holdCaller(
  { reason, reasonCodes, decision }: Refusal,
  { arrival, claims }: { readonly arrival: Arrived; readonly claims: Claims },
  { quarantines }: Pick<Pipeline, 'quarantines'>,
  control: Control,
): void {
  if (decision !== 'quarantine') return;
  const entry = quarantines.hold(callerOf(arrival, claims), { reason, reason_codes: reasonCodes });
  if (entry) control.settle(entry);
}
