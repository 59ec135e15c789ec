import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { AuditChange } from '../../base/model/audit-entry.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';

/**
 * How a service stores what somebody has asked it to change. Whoever asks says what else belongs into that commit: an
 * operation adds the entry of the audit trail, so that none of the two is ever there alone.
 * @param object which one is changed; undefined where there is only one
 * @param also what goes with it, each thing told of by itself
 * @param told what the entry says beside what the effects show
 * @throws GatewayError as `Store.commit`
 */
export type Commit = (
  object: string | undefined,
  effects: readonly Effect[],
  expect?: readonly Expectation[],
  also?: readonly AlsoChanged[],
  told?: ToldChanges,
) => Promise<void>;

/**
 * What a change does, of which the effects show the whole text alone.
 * @param toOrg the entry is shown to an org: what is the operator's is told in short
 */
export type ToldChanges = (toOrg: boolean) => readonly AuditChange[];

/** A thing that changes because another does. */
export interface AlsoChanged {
  /** The id of the operation that changes such a thing by itself. */
  readonly operation: string;
  readonly object: string;
  readonly effects: readonly Effect[];
}

/** For what no person asks for: files that are read at a start, the gateway itself. */
export function commitAlone(store: Pick<Store, 'commit'>): Commit {
  return (_object, effects, expect, also = []) => store.commit(undefined, [...effects, ...also.flatMap((one) => one.effects)], expect);
}

/** Changes in one commit: an entity has at most some 64 KiB, and a commit of the embedded store at most 64 MiB. */
const AT_ONCE = 100;

/**
 * Commits changes of which there may be more than one commit takes, such as those of a move: each whole, some at a
 * time. Who is interrupted finds the rest as it was.
 * @throws Error when the store cannot be written; what comes before is stored then
 */
export async function commitInParts(store: Pick<Store, 'commit'>, changes: readonly (readonly Effect[])[]): Promise<void> {
  for (let at = 0; at < changes.length; at += AT_ONCE) await store.commit(undefined, changes.slice(at, at + AT_ONCE).flat());
}

/** Whether a commit took place: false where others were there first (`Store.commit`, `expect`). */
export async function unlessConflict(commit: Promise<void>): Promise<boolean> {
  try {
    await commit;
    return true;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'conflict') return false;
    throw error;
  }
}
