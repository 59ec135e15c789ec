import type { Approval } from '../../base/model/approval.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Effect } from '../../storage/contract/store.ts';
import { writeIntent } from '../answer/intent.ts';
import type { BoundAction } from '../parts/approving.ts';
import { askForApproval } from '../parts/ask-for-approval.ts';
import type { Approvals, Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Parts } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import type { Closing, Ending, Settlement } from '../parts/settlement.ts';
import { SWITCHED } from '../parts/socket-answer.ts';
import { type Control, defineStage } from '../parts/stage.ts';

const READ = ['arrival', 'claims', 'proof', 'action', 'judgement', 'attribution', 'route', 'cleared'] as const;
type Read = Pick<Parts, (typeof READ)[number]> & { readonly delegated?: Parts['delegated'] };

/**
 * Spends the approval of a call that has one, before anything is forwarded, and behind an intent, so that what is spent
 * has its record however the process ends (decision 9.1). Of calls that come at the same time one is first; the others
 * are answered as new requests.
 */
export const spend = defineStage({
  name: 'spend',
  reads: READ,
  sees: ['delegated'],
  run(parts, pipeline, control) {
    const { bound } = parts.cleared;
    // An event of a WebSocket that is no call executes nothing, and has no record to spend an approval on.
    if (bound === undefined || parts.arrival.socketCall?.settingsOnly === true) return undefined;
    return spendOn(parts, bound, pipeline, control);
  },
});

async function spendOn(parts: Read, bound: BoundAction, pipeline: Pipeline, control: Control): Promise<Refusal | undefined> {
  const { approvals } = pipeline;
  const { arrival, route } = parts;
  const given = parts.cleared.by;
  const { hold } = control;
  if (!hold.hasIntent) await writeIntent({ hold, route, draft: () => control.draft() }, pipeline.settings);
  const isFirst = approvals !== undefined && (await approvals.claim(given, arrival.recordId));
  control.waited?.hasSpent?.();
  if (isFirst) {
    hold.pass();
    control.settle(new Spent(given, approvals));
    return undefined;
  }
  return askForApproval(parts, bound, pipeline, control.waited?.hasOpened);
}

/** Statuses of a call that its provider has not answered. */
const NOT_ANSWERED: ReadonlySet<number | undefined> = new Set([502, 504]);
const TOO_MANY_REQUESTS = 429;
const FAULT = 500;

/** What was given stays spent, unless the call was not executed: then its record gives it back (decisions 4.6, 9.1). */
class Spent implements Settlement {
  readonly needsRecord = true;
  readonly #given: readonly Approval[];
  readonly #approvals: Approvals;
  #isGivenBack = false;

  constructor(given: readonly Approval[], approvals: Approvals) {
    this.#given = given;
    this.#approvals = approvals;
  }

  effects(record: ExecutionRecord, { delivered }: Closing): readonly Effect[] {
    this.#isGivenBack = !isExecuted(record, delivered);
    return this.#isGivenBack ? this.#approvals.giveBack(this.#given) : [];
  }

  failed(): void {
    if (this.#isGivenBack) this.#approvals.restore(this.#given);
  }

  abandoned({ answered }: Ending): void {
    if (!answered) this.#approvals.restore(this.#given);
  }
}

function isExecuted(record: ExecutionRecord, delivered: Delivered | undefined): boolean {
  if (delivered === undefined) return record.decision !== 'error';
  const { status, bodyWaits } = delivered;
  // It ended, with its client or its caller, before all of it was sent.
  if (status === undefined && bodyWaits === true) return false;
  if (status !== undefined && (status === TOO_MANY_REQUESTS || status >= FAULT)) return false;
  // A call on a WebSocket has no status of its own: its provider has said that it failed, and nothing came of it.
  if (status === SWITCHED && record.stream_outcome === 'error' && (record.metering?.tokens_out ?? 0) === 0) return false;
  return record.decision !== 'error' || !NOT_ANSWERED.has(record.status_code);
}
