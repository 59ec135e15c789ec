import type { Attribution } from '../../base/model/action-request.ts';
import type { QuarantineCaller } from '../../services/review/quarantines.ts';
import type { CallUnderWay } from '../../services/review/running-calls.ts';
import type { Delivered } from './delivered.ts';
import type { Arrived, CallRoute, Claims, Known, Target, WireCall } from './parts.ts';

/** What is known of where a call goes and what it means: the latest part that says so. */
export type Wire = Omit<WireCall, 'stream' | 'model'> & Partial<CallRoute>;

const NO_ATTRIBUTION: Attribution = {};

/** Where a call goes, as far as that is known. */
export function wireOf({ arrival, target, content, offer, route, dressed }: Known): Wire {
  const settled = route ?? offer;
  if (settled) return dressed && dressed.path !== settled.path ? { ...settled, path: dressed.path } : settled;
  const { stream, model } = content ?? {};
  return {
    ...(target ?? nowhere(arrival.head.method)),
    ...(stream === undefined ? {} : { stream }),
    ...(model === undefined ? {} : { model }),
  };
}

/** Of a call of which nothing else is known yet. */
export function nowhere(method: string): Target {
  return {
    method,
    host: '',
    port: 443,
    tls: true,
    path: '',
    provider: undefined,
    operation: undefined,
    actionType: 'http.request',
    opensSocket: false,
    isCall: true,
  };
}

/** Who pays for a call, as far as that is known. */
export function attributionOf({ claims, attribution }: Known): Attribution {
  return attribution ?? claims?.attribution ?? NO_ATTRIBUTION;
}

/** What came back of a call. */
export function deliveredOf({ answer, acceptance, onSocket }: Known): Delivered | undefined {
  return acceptance ?? answer?.delivery ?? onSocket?.answer;
}

/** Whom quarantine holds. */
export function callerOf({ callerIp }: Arrived, { orgId, workloadId, callerId }: Claims): QuarantineCaller {
  return { orgId, workloadId, callerId, callerIp };
}

/** What a call is known by while it is under way. @param place where it goes, once that is settled */
export function callUnderWay({ callerIp }: Arrived, { orgId, workloadId, callerId }: Claims, place: CallRoute | undefined): CallUnderWay {
  return { orgId, workloadId, callerId, callerIp, place };
}
