import type { Approval } from '../../base/model/approval.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Effect } from '../../storage/contract/store.ts';
import { writeIntent } from '../answer/intent.ts';
import { askForApproval } from '../parts/ask-for-approval.ts';
import type { Approvals, Pipeline } from '../parts/call-services.ts';
import { Hold } from '../parts/hold.ts';
import type { Parts } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import type { Closing, Settlement } from '../parts/settlement.ts';
import { type Control, defineStage } from '../parts/stage.ts';

const READ = ['arrival', 'claims', 'proof', 'action', 'judgement', 'attribution', 'route', 'cleared'] as const;
type Read = Pick<Parts, (typeof READ)[number]> & { readonly hold?: Hold | undefined };

/**
 * Spends the approval of a call that has one, before anything is forwarded, and behind an intent, so that what is spent has its record however the process ends (decision
 * 9.1). Of calls that come at the same time one is first; the others are answered as new requests.
 */
export const spend = defineStage({
  name: 'spend',
  reads: READ,
  sees: ['hold'],
  run(parts, pipeline, control) {
    const { by } = parts.cleared;
    return by === undefined ? undefined : spendOn(parts, by, pipeline, control);
  },
});

async function spendOn(parts: Read, given: Approval, pipeline: Pipeline, control: Control): Promise<Refusal | undefined> {
  const { approvals } = pipeline;
  const { arrival, route } = parts;
  const hold = parts.hold ?? holdOf(parts, pipeline, control);
  if (!hold.hasIntent) await writeIntent({ hold, route, draft: () => control.draft() }, pipeline.settings);
  if (approvals !== undefined && (await approvals.claim(given, arrival.recordId))) {
    control.settle(new Spent(given, approvals));
    return undefined;
  }
  giveTokensBack(parts, pipeline);
  return askForApproval(parts, approvals);
}

/** A tunnel that is let through costs nothing, so nothing was set aside for it. */
function holdOf({ arrival }: Read, pipeline: Pipeline, control: Control): Hold {
  const hold = new Hold(pipeline, arrival.recordId);
  control.settle(hold);
  return hold;
}

/** A refused call takes none (decision 6.1). */
function giveTokensBack({ claims: { orgId, workloadId }, judgement }: Read, { rateLimits }: Pipeline): void {
  rateLimits.giveBack(orgId, workloadId, judgement.verdict.effects.rate_limits);
}

/** Statuses of a call that its provider has not answered. */
const NOT_ANSWERED: ReadonlySet<number | undefined> = new Set([502, 504]);

/** What was given stays spent, unless the call was not made: a 502 or 504 gives it back, and an end before anything was forwarded (decision 4.6). */
class Spent implements Settlement {
  readonly #given: Approval;
  readonly #approvals: Approvals;

  constructor(given: Approval, approvals: Approvals) {
    this.#given = given;
    this.#approvals = approvals;
  }

  effects(record: ExecutionRecord, { delivered }: Closing): readonly Effect[] {
    const isMade = record.decision !== 'error' || (delivered !== undefined && !NOT_ANSWERED.has(record.status_code));
    return isMade ? [] : this.#approvals.giveBack(this.#given);
  }

  abandoned(): void {
    this.#approvals.restore(this.#given);
  }
}
