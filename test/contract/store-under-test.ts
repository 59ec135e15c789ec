import { createHash } from 'node:crypto';
import type { Test } from 'tap';
import type { Effect, RecordCommit, Store } from '../../src/storage/contract/store.ts';

export type Tap = Test;

export interface StoreUnderTest {
  readonly store: Store;
  /** Closes the store and opens it again on the same data. */
  reopen(): Promise<Store>;
  /** Opens it again on the same data without closing, as after the death of the process. */
  reopenAfterDeath(): Promise<Store>;
  /** Opens it once more beside the first one; absent: the driver has one writer at a time. */
  another?(): Promise<Store>;
  /** From now on writes fail as on a full disk, or work again. */
  failWrites(failing: boolean): void;
  /** Lets time pass until the driver has probed. */
  waitForProbe(): Promise<void>;
}

export const EPOCH = 1_795_000_000_000;

/** A record as small as the contract allows; ids grow with `n`. */
export function makeRecord(n: number, more: { readonly committed_at?: number; readonly pad?: number } = {}): RecordCommit {
  const record_id = `01999999-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
  const record_hash = createHash('sha256').update(record_id).digest('hex');
  const text = JSON.stringify({ n, pad: 'ü'.repeat(more.pad ?? 3), record_hash, record_id });
  return { record_id, record_hash, text, committed_at: more.committed_at ?? EPOCH + n };
}

export function add(key: string, amounts: Readonly<Record<string, bigint>>, space = 'c'): Effect {
  return { op: 'add', space, key, amounts };
}

export function put(key: string, value: unknown, space = 'e'): Effect {
  return { op: 'put', space, key, value };
}

export async function texts(store: Store, page: Parameters<Store['records']>[0]): Promise<string[]> {
  return (await store.records(page)).map((record) => record.text);
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'record_store_unavailable';
}

export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The store as it is, then opened again in these ways: what holds must hold in every state. */
export async function* states(under: StoreUnderTest, ...ways: readonly ('reopen' | 'reopenAfterDeath')[]): AsyncGenerator<Store> {
  yield under.store;
  for (const way of ways) yield await under[way]();
}

/** Lets promises and file operations that are under way finish. */
export async function turns(count = 20): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until `holds`, a turn of the event loop at a time. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; !(await holds()); await turns(1))
    if (performance.now() > end) throw new Error(`never: ${holds}`);
}
