import { newestFirst } from '../../base/lib/ids.ts';
import type { Approval } from '../../base/model/approval.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { commitInParts } from '../registers/commit.ts';
import { type LaidDown, type Sharer, sharerOf } from '../registers/sharers.ts';

/** An approval that waits, as it is stored beside it. JSON data. */
export interface WaitingApproval {
  /** When it expires, epoch milliseconds. */
  readonly due: number;
  /** The org that it is of. */
  readonly org_id: string;
  /** Whose share of the places it takes. */
  readonly share: Sharer;
  /** Only calls on open connections wait for it: no caller was told to come again. */
  readonly onlyHeld?: true;
}

/** Whose share a request takes that waits for an approval. */
export function shareOfRequest(
  {
    org_id: orgId,
    workload_id: workloadId,
    caller_ip: callerIp = '',
    api_key_id: apiKeyId,
  }: Pick<Approval, 'org_id' | 'workload_id' | 'caller_ip' | 'api_key_id'>,
  known: LaidDown,
): Sharer {
  return sharerOf({ orgId, workloadId, callerIp, apiKeyId }, known);
}

/** @param onlyHeld its call waits on its open connection */
export function waitingOf(approval: Approval, known: LaidDown, onlyHeld = false): WaitingApproval {
  const waiting = { due: Date.parse(approval.expires_at), org_id: approval.org_id, share: shareOfRequest(approval, known) };
  return onlyHeld ? { ...waiting, onlyHeld } : waiting;
}

/**
 * Says of those that a version before shares has left waiting, with the time alone, what it did not.
 * @param spaces of all approvals, and of those that wait
 * @throws Error when the store cannot be read or written
 */
export async function nameWaiting(
  store: Pick<Store, 'get' | 'list' | 'commit'>,
  spaces: { readonly all: string; readonly waiting: string },
  known: LaidDown,
): Promise<void> {
  const changes: Effect[][] = [];
  for (const { key, value } of await store.list(spaces.waiting)) {
    if (typeof value !== 'number') continue;
    const approval = (await store.get(spaces.all, newestFirst(key))) as Approval | undefined;
    if (approval === undefined) changes.push([{ op: 'delete', space: spaces.waiting, key }]);
    else changes.push([{ op: 'put', space: spaces.waiting, key, value: waitingOf(approval, known) }]);
  }
  await commitInParts(store, changes);
}
