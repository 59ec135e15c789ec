import type { Approval } from './approval.ts';
import { ERROR_HEADERS } from './error-codes.ts';
import { type NextWay, type RecordedDecision, wayOf } from './reason-codes.ts';

/** What a program that was not let through does next, as it reads it in a refusal (decision 9.1). */
export interface NextStep {
  /** Answers when it was decided, to the caller's own credential. */
  readonly wait_url?: string;
  /** In how many seconds it is worth to come again. */
  readonly retry_after?: number;
  /** `repeat`: the same request again, byte for byte. `change`: this one is not let through as it is. */
  readonly request: 'repeat' | 'change';
  /** The same in one sentence, for a model or a person. */
  readonly message: string;
}

/** In so many seconds a caller that cannot wait for a decision may ask for it. */
export const ASK_AGAIN_SECONDS = 30;

const STEPS: Readonly<Record<NextWay, NextStep>> = {
  change: {
    request: 'change',
    message: 'Do not send it again as it is: change what the reason names, or ask whoever runs this gateway.',
  },
  less: { request: 'change', message: 'Ask for less: a cheaper model, a shorter prompt or fewer tokens.' },
  name: { request: 'change', message: 'Name what is missing, a project by the header X-GW-Project-ID, and send it again.' },
  later: { request: 'repeat', message: 'The request can stay as it is: send it again a little later.' },
  unsure: {
    request: 'change',
    message: 'The provider may have executed it: find out whether it has before you send it again.',
  },
  person: {
    request: 'repeat',
    message: 'The request can stay as it is: tell whoever runs this gateway, and send it again once that has been set right.',
  },
};

/** A moment is enough where the answer itself says so in its head (`Retry-After`). */
function usualSeconds(way: NextWay, reasonCodes: readonly string[]): number | undefined {
  if (way !== 'later') return undefined;
  const heads = new Map<string, readonly string[] | undefined>(Object.entries(ERROR_HEADERS));
  const [name, value] = reasonCodes.flatMap((code) => heads.get(code) ?? []);
  return name === 'Retry-After' ? Number(value) : ASK_AGAIN_SECONDS;
}

/** What a call came to, as far as it says what to do next. */
export interface RefusedAs {
  readonly decision: RecordedDecision;
  readonly reasonCodes: readonly string[];
  /** In how many seconds the same request may pass; undefined: nobody knows, or never by itself. */
  readonly retryAfterSeconds?: number | undefined;
}

/** What a program does next about a call that was refused, or ended before its time. */
export function stepAfter({ decision, reasonCodes, retryAfterSeconds }: RefusedAs): NextStep {
  const way = wayOf(decision, reasonCodes);
  const step = STEPS[way];
  const seconds = retryAfterSeconds ?? usualSeconds(way, reasonCodes);
  if (seconds === undefined) return step;
  const message =
    step.request === 'repeat'
      ? `The request can stay as it is: send it again in ${seconds} s.`
      : `${step.message.slice(0, -1)}; the same request may pass in ${seconds} s.`;
  return { ...step, retry_after: seconds, message };
}

/** Of a request about which people have decided, by the status of its approval. */
const DECIDED: Readonly<Record<Exclude<Approval['status'], 'pending'>, NextStep>> = {
  approved: { request: 'repeat', message: 'It was approved: send the same request again.' },
  withdrawn: { request: 'repeat', message: 'Nobody is asked about it any more: send the same request again to have it asked about anew.' },
  denied: {
    request: 'change',
    message: 'It was denied: do not send it again as it is; do what the reason says, or ask the person who denied it.',
  },
  expired: { request: 'change', message: 'Its time is over: ask whoever runs this gateway before you send it again.' },
};

const SENT: NextStep = {
  request: 'change',
  message: 'It was approved and has been sent: send it again only if you need it once more, which is asked about anew.',
};

type Asked = Pick<Approval, 'approval_id' | 'status' | 'executed_at'>;

/**
 * What a program does next about a request that waits for a person, or did.
 * @param origin where it reaches the gateway; undefined: it knows where to wait, or is not told
 */
export function nextStep({ approval_id: id, status, executed_at: sentAt }: Asked, origin?: string): NextStep {
  if (sentAt !== undefined) return SENT;
  if (status !== 'pending') return DECIDED[status];
  const waiting = { retry_after: ASK_AGAIN_SECONDS, request: 'repeat' } as const;
  if (origin === undefined) return { ...waiting, message: 'It waits for a person: send the same request again once it has been approved.' };
  const message = 'It waits for a person: wait_url answers when it is decided; if it was approved, send the same request again.';
  return { wait_url: `${origin}/v1/approvals/${id}/wait`, ...waiting, message };
}
