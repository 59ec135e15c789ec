import { hostname } from 'node:os';
import { isJsonObject } from '../../base/json/json-object.ts';
import { timestamp } from '../../base/lib/clock.ts';
import type { KeyScope } from '../../base/model/keys.ts';
import { ownSession } from '../own-session.ts';

/** Where the admin token makes management keys. */
export const KEYS_PATH = '/v1/admin/mgmt-keys';

/** The path of one of them. */
export function keyPath(id: string): string {
  return `${KEYS_PATH}/${encodeURIComponent(id)}`;
}

export interface AskedKey {
  readonly orgId: string;
  readonly scopes: readonly KeyScope[];
  /** Who has it, for the list of keys and the audit trail. */
  readonly holder: string;
  /** The program that works with the admin token: what it does is told as done by that token. */
  readonly program: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/** What asks for a key that a program of this machine makes for itself. */
export function keyAsked({ orgId, scopes, holder, program, expiresAt }: AskedKey): object {
  const session = ownSession(program);
  return { org_id: orgId, name: `${holder} on ${hostname()}`, kind: 'management', scopes, expires_at: timestamp(expiresAt), session };
}

/** The key that an answer has; undefined: it has none. */
export function keyIn(answer: unknown): { readonly id: string; readonly key: string } | undefined {
  const { id, key } = isJsonObject(answer) ? answer : {};
  return typeof id === 'string' && typeof key === 'string' ? { id, key } : undefined;
}
