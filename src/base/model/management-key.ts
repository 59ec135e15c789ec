import type { AdminSession, Scope } from './principal.ts';

/** `management`: for `/mgmt/v1`. `mcp`: for `/mcp`. Neither opens the other's surface (specification, "Authentication" 4). */
export const MANAGEMENT_KEY_KINDS = ['management', 'mcp'] as const;
export type ManagementKeyKind = (typeof MANAGEMENT_KEY_KINDS)[number];

export const KEY_SCOPES = ['read', 'write', 'approve'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** What a key may be made with: the two sets of the specification, and those of approvers (decision 10.1). */
export const KEY_SCOPE_SETS: readonly (readonly KeyScope[])[] = [['read'], ['read', 'write'], ['approve'], ['read', 'approve']];

/** What each scope of a key opens. */
const OPENS: Readonly<Record<KeyScope, readonly Scope[]>> = {
  read: ['read', 'review'],
  write: ['read', 'review', 'write', 'decide'],
  approve: ['review', 'decide'],
};

/** What a key with these scopes may ask. */
export function openedBy(scopes: readonly KeyScope[]): readonly Scope[] {
  return [...new Set(scopes.flatMap((scope) => OPENS[scope]))];
}

/** The scopes of keys that each open this one, the narrowest first; empty: keys do not. */
export function scopesFor(scope: Scope): readonly KeyScope[] {
  return scope === 'read' || scope === 'write'
    ? [scope]
    : KEY_SCOPES.filter((one) => OPENS[one].includes(scope) && (one !== 'write' || scope === 'decide'));
}

/** Why a key that opens `held` does not open something, in words for the person who has it. @param what names that: `this`, a tool */
export function scopeLacked(held: readonly Scope[], scope: Scope, what: string): string {
  const may = held.includes('read') ? 'may read' : 'may list and decide approvals and quarantines';
  const needed = scopesFor(scope).map((one) => `\`${one}\``);
  return `This key ${may}; ${what} needs the scope ${needed.join(' or ')}.`;
}

/** A key by which a person or an assistant manages one org. The key itself is nowhere: only its SHA-256 is stored. */
export interface ManagementKey {
  /** UUIDv7. */
  readonly id: string;
  readonly org_id: string;
  readonly kind: ManagementKeyKind;
  /** For people. */
  readonly name: string;
  /** The first 16 characters of the key, with what its kind begins with. */
  readonly key_prefix: string;
  /** `write` alone stands in keys that were made long ago; it implies `read`. */
  readonly scopes: readonly KeyScope[];
  /** It was made for one session of the admin token, and acts for that. */
  readonly session?: AdminSession;
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
}
