import type { Scope } from './principal.ts';

/** With what somebody has signed in to the console. */
export const CONSOLE_SESSION_KINDS = ['admin', 'management_key'] as const;

/** A session of a browser at the console, without what opens it. */
export interface ConsoleSession {
  /** UUIDv7. */
  readonly id: string;
  readonly kind: (typeof CONSOLE_SESSION_KINDS)[number];
  /** Of a management key: the key, and whose it is. */
  readonly key_id?: string;
  readonly org_id?: string;
  readonly made_at: string;
  /** As of a minute at most. */
  readonly last_seen_at: string;
  /** However much it is used. */
  readonly expires_at: string;
  /** From which it was begun, without port. */
  readonly address: string;
  /** As the browser called itself then, at most 200 characters. */
  readonly browser?: string;
}

/** One that is good, as it is shown: with what its key is called, and opens, at the moment. */
export interface ShownSession extends ConsoleSession {
  readonly name?: string;
  /** What it may ask for. */
  readonly scopes: readonly Scope[];
  readonly idle_expires_at: string;
}
