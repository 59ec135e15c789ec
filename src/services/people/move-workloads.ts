import type { Workload } from '../../base/model/workload.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { commitInParts } from '../registers/commit.ts';
import { workloadKey } from '../registers/org-key.ts';

/**
 * Brings workloads of orgs, with their tokens, to the keys that they have since each org has ids of its own: before, all orgs shared one space of ids. Does nothing where that was done.
 * @param spaces of the workloads and of their tokens
 * @throws Error when the store cannot be read or written
 */
export async function moveWorkloads(
  store: Store,
  { workloads, tokens }: { readonly workloads: string; readonly tokens: string },
): Promise<void> {
  const moves: Effect[][] = [];
  for (const { key, value } of await store.list(workloads)) {
    const next = workloadKey(value as Workload);
    if (next === key) continue;
    const move: Effect[] = [
      { op: 'put', space: workloads, key: next, value },
      { op: 'delete', space: workloads, key },
    ];
    const token = await store.get(tokens, key);
    if (token !== undefined) move.push({ op: 'put', space: tokens, key: next, value: token }, { op: 'delete', space: tokens, key });
    moves.push(move);
  }
  await commitInParts(store, moves);
}
