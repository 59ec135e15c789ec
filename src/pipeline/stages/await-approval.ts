import { GatewayError } from '../../base/lib/gateway-error.ts';
import { coverOf, isSameRequest } from '../../decide/policy/approval-standing.ts';
import type { ApprovalAnswer } from '../../services/review/approvals.ts';
import type { HeldCall, HoldEnd } from '../../services/review/held-calls.ts';
import type { BoundAction, Cleared } from '../parts/approving.ts';
import { askedRefusal, askPersons, boundOf, boundRequest, notAsked, notPossible } from '../parts/ask-for-approval.ts';
import type { Approvals, Pipeline } from '../parts/call-services.ts';
import { callUnderWay } from '../parts/known.ts';
import type { Parts } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import { type Control, defineStage, JUDGE_AGAIN } from '../parts/stage.ts';
import { refusedAnyway } from '../route/refused-anyway.ts';

const READ = [
  'arrival',
  'claims',
  'target',
  'proof',
  'action',
  'content',
  'offer',
  'judgement',
  'approving',
  'attribution',
  'mutation',
  'route',
] as const;
type Read = Pick<Parts, (typeof READ)[number]> & { readonly delegated?: Parts['delegated']; readonly intake?: Parts['intake'] | undefined };

const NOBODY = { cleared: { by: [], bound: undefined } };

/**
 * Behind everything else that could refuse the call, so that nobody is asked about one that would not be made (decision
 * 4.6): what waits ends here, and what goes on has been cleared. By now connector, host, path and project are settled,
 * so what was given for another place or project does not count. Nothing behind this stage can run without it.
 */
export const approval = defineStage({
  name: 'approval',
  reads: READ,
  sees: ['delegated', 'intake'],
  makes: ['cleared'],
  run(parts, pipeline, control) {
    const { approving, mutation } = parts;
    return approving.rules.length === 0 && !mutation.choiceAsks?.length ? NOBODY : seeTo(parts, pipeline, control);
  },
});

async function seeTo(parts: Read, pipeline: Pipeline, control: Control): Promise<End> {
  const { approvals } = pipeline;
  const { claims, approving } = parts;
  const bound = boundOf(parts);
  if (bound === undefined) return notPossible();
  const given = approving.requestHash === undefined ? await approvals?.usable(claims.orgId, bound.requestHash) : approving.given;
  const request = boundRequest(parts, bound);
  const { by, open } = coverOf(bound.rules, given?.filter((one) => isSameRequest(one, request)) ?? []);
  if (open.length === 0) return control.waited === undefined ? { cleared: { by, bound } } : inTurn({ by, bound }, pipeline, control);
  const asked = { ...bound, rules: open };
  const refusal = await refusedAnyway(parts, pipeline);
  if (refusal !== undefined || approvals === undefined) return refusal ?? notAsked(parts, asked);
  return hold({ parts, asked, approvals }, pipeline, control);
}

type End = { readonly cleared: Cleared } | Refusal | typeof JUDGE_AGAIN;

/** A call that has waited spends what was given when no other one that has waited for it is about to. */
async function inTurn(cleared: Cleared, { approvals }: Pipeline, control: Control): Promise<End> {
  const { waited } = control;
  if (approvals === undefined || waited === undefined || waited.times >= MOST_TIMES) return { cleared };
  const turn = approvals.takeTurn(cleared.by);
  if ('before' in turn) {
    await turn.before;
    control.waited = { ...waited, times: waited.times + 1 };
    return JUDGE_AGAIN;
  }
  control.waited = { ...waited, hasSpent: turn.done };
  control.atEnd(turn.done);
  return { cleared };
}

interface Asking {
  readonly parts: Read;
  /** With the rules for which nothing was given. */
  readonly asked: BoundAction;
  readonly approvals: Approvals;
}

/** So often a call is judged again; each time another rule may ask. */
const MOST_TIMES = 16;

/**
 * Has a person asked, and the call wait for that on its open connection, where it may (decision 9.1). What it is told
 * then is what it would be told if it came again: it is judged once more by what holds now.
 */
async function hold(asking: Asking, pipeline: Pipeline, control: Control): Promise<End> {
  const { parts, asked, approvals } = asking;
  const { clock, place } = pipeline;
  const {
    until,
    times,
    hasOpened: before,
  } = control.waited ?? { until: clock.now() + holdMsOf(asked, approvals), times: 0, hasOpened: false };
  const onLeft = until > clock.now() && times < MOST_TIMES ? leavingOf(parts, pipeline) : undefined;
  // What exists with each call that waits is counted.
  if (onLeft !== undefined) parts.intake?.held?.takeMade();
  const answer = await askPersons(parts, asked, approvals, onLeft && until);
  const hasOpened = before || answer.kind === 'opened';
  control.waited = { until, times: times + 1, hasOpened };
  const end = onLeft && (await waitFor(answer, { until, onLeft }, asking));
  if (end === 'ended') return JUDGE_AGAIN;
  if (end === 'gone') throw new GatewayError('client_gone', 'The client left while its call waited for an approval.');
  if (answer.kind === 'opened' || answer.kind === 'waiting') await approvals.promise(answer.approval);
  return askedRefusal(parts, asked, { answer, place: place.forCallers, hasWaited: end === 'over', hasOpened });
}

/** @returns undefined where there is nothing to wait for */
async function waitFor(
  answer: ApprovalAnswer,
  call: Pick<HeldCall, 'until' | 'onLeft'>,
  { parts, approvals }: Asking,
): Promise<HoldEnd | undefined> {
  if (answer.kind === 'approved') return 'ended';
  if (answer.kind !== 'opened' && answer.kind !== 'waiting') return undefined;
  const { arrival, content } = parts;
  arrival.heldBy?.held();
  return approvals.hold(answer.approval, { ...call, bytes: content.body?.bytes.length ?? 0 });
}

/** The longest that one of the rules wants, milliseconds. */
function holdMsOf({ rules }: BoundAction, { holdMs }: Approvals): number {
  return Math.max(0, ...rules.map(({ terms }) => terms?.holdMs ?? holdMs));
}

/** Tells when a call need not wait any more; undefined where nobody could tell. */
function leavingOf({ arrival, claims, route }: Read, { running }: Pipeline): HeldCall['onLeft'] | undefined {
  const { reply, heldBy } = arrival;
  const client = reply ?? heldBy;
  if (client === undefined) return undefined;
  return (leave) => {
    client.onGone(() => leave('gone'));
    // Its caller is in quarantine now, or its calls are stopped: it is refused for that.
    return running.watch(callUnderWay(arrival, claims, route), () => leave('ended'));
  };
}
