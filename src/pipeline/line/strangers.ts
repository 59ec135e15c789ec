import { type CanonicalRecord, canonicalRecord, type RecordDraft } from '../../record/canonical-record.ts';
import { isLong, shortRecord } from '../../record/short-record.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Known } from '../parts/parts.ts';

/** What is written of a refused call. */
export interface RefusedRecord extends CanonicalRecord {
  /** It has no record of its own: another one counts it. */
  readonly summed?: true;
}

type Ground = Pick<Pipeline, 'authenticator' | 'settings' | 'strangers' | 'workloads'>;

/**
 * The record of a refused call (decision 7.11). Who has shown a token or a key has it in full. Of who has shown nothing it is short, and there is none of its own when his
 * address has had too many. A workload that is registered, needs no token and is not that of callers who name none stands between them: it always has its record, which is short
 * when the budget of its address has no room for a long one. The draft is changed where it is shortened.
 * @param isNeeded what goes with the record would be lost without it, such as that somebody is held from now on
 */
export function refusedRecord(draft: RecordDraft, parts: Known, ground: Ground, isNeeded: boolean): RefusedRecord {
  const whole = canonicalRecord(draft);
  const who = whoIs(parts, ground);
  if (who === 'known') return whole;
  const { callerIp } = parts.arrival;
  if (who === 'open')
    return isLong(whole) && !ground.strangers.mayRecord(callerIp, Buffer.byteLength(whole.text)) ? shortRecord(draft) : whole;
  const short = isLong(whole) ? shortRecord(draft) : whole;
  const hasRoom = ground.strangers.mayRecord(callerIp, Buffer.byteLength(short.text));
  return hasRoom || isNeeded ? short : { ...short, summed: true };
}

function whoIs(parts: Known, ground: Ground): 'known' | 'open' | 'stranger' {
  if (hasShown(parts, ground)) return 'known';
  return isRegistered(parts, ground) ? 'open' : 'stranger';
}

/** Whether a token or a key that counts was shown, also by who was refused before he was asked for it. */
function hasShown({ arrival, claims, proof }: Known, { authenticator }: Ground): boolean {
  if (proof !== undefined) return proof.workload !== undefined || proof.apiKey !== undefined;
  const { fixedWorkload, fixedOrg } = arrival.head.tunnel ?? {};
  if (fixedWorkload !== undefined || fixedOrg !== undefined || claims?.apiKey?.result === 'valid') return true;
  const token = claims?.identity?.workloadToken;
  return token !== undefined && authenticator.holderOf(token) !== undefined;
}

/** Whether it was asked who calls, and he is a workload of an org that is served here. That of callers who name none says nothing of who calls. */
function isRegistered({ caller, claims, proof }: Known, { settings, workloads }: Ground): boolean {
  if (claims === undefined || claims.workloadId === workloads.defaultWorkloadId(claims.orgId)) return false;
  if (caller !== undefined) return true;
  if (proof === undefined) return false;
  const isServed = settings.orgId === undefined || settings.orgId === claims.orgId;
  return isServed && workloads.get(claims.orgId, claims.workloadId) !== undefined;
}
