import type { Approval } from './approval.ts';

/** What a program that was not let through does next, as it reads it in a refusal. */
export interface NextStep {
  /** Answers when it was decided, to the caller's own credential. */
  readonly wait_url?: string;
  /** In how many seconds it is worth to come again. */
  readonly retry_after?: number;
  /** `repeat`: the same request again, byte for byte. `change`: this one is not let through as it is. */
  readonly request: 'repeat' | 'change';
}

/** In so many seconds a caller that cannot wait for a decision may ask for it. */
export const ASK_AGAIN_SECONDS = 30;

/**
 * What a program does next about a request that waits for a person, or did.
 * @param origin where it reaches the gateway; undefined: it knows where to wait
 */
export function nextStep({ approval_id: id, status }: Pick<Approval, 'approval_id' | 'status'>, origin?: string): NextStep {
  if (status !== 'pending') return { request: status === 'denied' || status === 'expired' ? 'change' : 'repeat' };
  const where = origin === undefined ? {} : { wait_url: `${origin}/v1/approvals/${id}/wait` };
  return { ...where, retry_after: ASK_AGAIN_SECONDS, request: 'repeat' };
}
