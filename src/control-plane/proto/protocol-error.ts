import { status } from '@grpc/grpc-js';

/** Why a call was not carried out, as both sides see it: the names are those of gRPC, and each has a meaning here. */
export type ProtocolFault =
  /** The request cannot be right. */
  | 'INVALID_ARGUMENT'
  /** The bootstrap token is not known, was used or has expired; or no certificate was shown. */
  | 'UNAUTHENTICATED'
  /** The node's certificate was revoked. */
  | 'PERMISSION_DENIED'
  /** There is no such org. */
  | 'NOT_FOUND'
  /** More is asked for than is taken, or sooner. */
  | 'RESOURCE_EXHAUSTED'
  /** There is no such call, or it is not spoken in this form. */
  | 'UNIMPLEMENTED'
  | 'DEADLINE_EXCEEDED'
  /** Nobody can be reached, or he stops. */
  | 'UNAVAILABLE'
  | 'INTERNAL';

/** A call that was not carried out; the message is for a person and has no secret. */
export class ProtocolError extends Error {
  readonly fault: ProtocolFault;
  /** Milliseconds after which the same may be asked again; undefined: nothing was said of it. */
  readonly retryAfterMs: number | undefined;

  constructor(fault: ProtocolFault, message: string, options?: { cause?: unknown; retryAfterMs?: number | undefined }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.fault = fault;
    this.retryAfterMs = options?.retryAfterMs;
  }
}

const FAULTS: readonly ProtocolFault[] = [
  'INVALID_ARGUMENT',
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'NOT_FOUND',
  'RESOURCE_EXHAUSTED',
  'UNIMPLEMENTED',
  'DEADLINE_EXCEEDED',
  'UNAVAILABLE',
  'INTERNAL',
];

export function statusOf(fault: ProtocolFault): number {
  return status[fault];
}

/** Any other status is a fault of the peer. */
export function faultOf(code: number | undefined): ProtocolFault {
  return FAULTS.find((fault) => status[fault] === code) ?? 'INTERNAL';
}
