import { coverOf, isSameRequest } from '../../decide/policy/approval-standing.ts';
import type { Cleared } from '../parts/approving.ts';
import { askForApproval, boundOf, boundRequest, notPossible } from '../parts/ask-for-approval.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Parts } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
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
type Read = Pick<Parts, (typeof READ)[number]> & { readonly delegated?: Parts['delegated'] };

const NOBODY = { cleared: { by: [], bound: undefined } };

/**
 * Behind everything else that could refuse the call, so that nobody is asked about one that would not be made (decision
 * 4.6): what waits ends here, and what goes on has been cleared. By now connector, host, path and project are settled,
 * so what was given for another place or project does not count. Nothing behind this stage can run without it.
 */
export const approval = defineStage({
  name: 'approval',
  reads: READ,
  sees: ['delegated'],
  makes: ['cleared'],
  run(parts, pipeline) {
    const { approving, mutation } = parts;
    return approving.rules.length === 0 && !mutation.choiceAsks?.length ? NOBODY : seeTo(parts, pipeline);
  },
});

async function seeTo(parts: Read, pipeline: Pipeline): Promise<{ readonly cleared: Cleared } | Refusal> {
  const { approvals } = pipeline;
  const { claims, approving } = parts;
  const bound = boundOf(parts);
  if (bound === undefined) return notPossible();
  const given = approving.requestHash === undefined ? await approvals?.usable(claims.orgId, bound.requestHash) : approving.given;
  const request = boundRequest(parts, bound);
  const { by, open } = coverOf(bound.rules, given?.filter((one) => isSameRequest(one, request)) ?? []);
  if (open.length === 0) return { cleared: { by, bound } };
  return (await refusedAnyway(parts, pipeline)) ?? askForApproval(parts, { ...bound, rules: open }, approvals);
}
