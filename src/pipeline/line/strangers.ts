import { type CanonicalRecord, canonicalRecord, type RecordDraft } from '../../record/canonical-record.ts';
import { isLong, shortRecord } from '../../record/short-record.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Known } from '../parts/parts.ts';

/** What is written of a refused call. */
export interface RefusedRecord extends CanonicalRecord {
  /** It has no record of its own: another one counts it. */
  readonly summed?: true;
  /** It was cut, because its org has had too many long ones. */
  readonly shortened?: true;
}

type Ground = Pick<Pipeline, 'authenticator' | 'settings' | 'strangers' | 'workloads'>;

/**
 * The record of a refused call (decision 7.11). Who has shown a token or a key always has it: in full, or short when it
 * is long and his org has had too many long ones. Of who has shown nothing it is short, and there is none of its own
 * when his address has had too many. A workload that is registered, needs no token and is not that of callers who name
 * none stands between them: it always has its record, which is short when the budget of its address has no room for a
 * long one. The draft is changed where it is shortened.
 * @param isNeeded what goes with the record would be lost without it, such as that somebody is held from now on
 */
export function refusedRecord(draft: RecordDraft, parts: Known, ground: Ground, isNeeded: boolean): RefusedRecord {
  const whole = canonicalRecord(draft);
  const { callerIp } = parts.arrival;
  const org = orgShown(parts, ground);
  if (org !== undefined) {
    const isWhole = !isLong(whole) || ground.strangers.mayBeLong(org, Buffer.byteLength(whole.text));
    return isWhole ? whole : { ...shortRecord(draft), shortened: true };
  }
  if (isRegistered(parts, ground))
    return isLong(whole) && !ground.strangers.mayRecord(callerIp, Buffer.byteLength(whole.text)) ? shortRecord(draft) : whole;
  const short = isLong(whole) ? shortRecord(draft) : whole;
  const hasRoom = ground.strangers.mayRecord(callerIp, Buffer.byteLength(short.text));
  return hasRoom || isNeeded ? short : { ...short, summed: true };
}

/**
 * The org of the token or key that was shown, if it counts; also of who was refused before he was asked for it. A
 * workload that counts for every org stands for itself, since its holder may name any.
 */
function orgShown({ arrival, claims, proof }: Known, { authenticator }: Ground): string | undefined {
  if (proof !== undefined) return proof.apiKey?.org_id ?? proof.workload?.split(' ', 1)[0];
  const { fixedWorkload, workloadOrg = fixedWorkload, fixedOrg = workloadOrg } = arrival.head.tunnel ?? {};
  if (fixedOrg !== undefined) return fixedOrg;
  if (claims?.apiKey?.result === 'valid') return claims.apiKey.key.org_id;
  const token = claims?.identity?.workloadToken;
  const holder = token === undefined ? undefined : authenticator.holderOf(token);
  return holder && (holder.org_id ?? holder.workload_id);
}

/**
 * Whether it was asked who calls, and he is a workload of an org that is served here. That of callers who name none
 * says nothing of who calls.
 */
function isRegistered({ caller, claims, proof }: Known, { settings, workloads }: Ground): boolean {
  if (claims === undefined || claims.workloadId === workloads.defaultWorkloadId(claims.orgId)) return false;
  if (caller !== undefined) return true;
  if (proof === undefined) return false;
  const isServed = settings.orgId === undefined || settings.orgId === claims.orgId;
  return isServed && workloads.get(claims.orgId, claims.workloadId) !== undefined;
}
