import type { AdminSession, Scope } from './principal.ts';

/**
 * `management`: for `/mgmt/v1`. `mcp`: for `/mcp`. Neither opens the other's surface (specification, "Authentication"
 * 4).
 */
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

/**
 * Why a key that opens `held` does not open something, in words for the person who has it.
 * @param what names that: `this`, a tool
 */
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
  /** The key that has made it, or that has made that one, up to one that the admin token has made. */
  readonly made_by?: string;
  /** Of approvers, that its holder is in. */
  readonly groups?: readonly string[];
  /** It was made for one session of the admin token, and acts for that. */
  readonly session?: AdminSession;
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
}

/**
 * A key by which programs of one org are let in (specification, "Authentication" 2). The key itself is nowhere: only
 * its SHA-256 is stored.
 */
export interface ApiKey {
  /** UUIDv7. */
  readonly id: string;
  readonly org_id: string;
  /** For people. */
  readonly name: string;
  /** The first 12 characters of the key, by which a person tells it from others. */
  readonly key_prefix: string;
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
}

export const CREDENTIAL_MODES = ['byok', 'alias'] as const;
export type CredentialMode = (typeof CREDENTIAL_MODES)[number];

/**
 * `ai_provider`: a key of an AI provider, distributed to nodes. `export_auth`: for export destinations, never
 * distributed.
 */
export const CREDENTIAL_TYPES = ['ai_provider', 'export_auth'] as const;

/**
 * `org_wide`: every node has it. `node_scoped`: only nodes with an explicit assignment. Fixed when the credential is
 * made.
 */
export const DISTRIBUTIONS = ['org_wide', 'node_scoped'] as const;

/** A stored credential without its secret (specification, "Credential"; decisions 6.6, 6.9, 8.11). */
export interface Credential {
  readonly credential_id: string;
  /** Absent: for every org. */
  readonly org_id?: string;
  readonly connector_id: string;
  readonly mode: CredentialMode;
  readonly type: (typeof CREDENTIAL_TYPES)[number];
  readonly distribution: (typeof DISTRIBUTIONS)[number];
  readonly name?: string;
  /** Whom the provider bills; a filter of `select_credential`. */
  readonly billing_owner?: string;
  /** Hosts of the connector that the secret may go to; absent: all of them. */
  readonly target_hosts?: readonly string[];
  /** Nodes that a `node_scoped` credential is assigned to. */
  readonly node_ids?: readonly string[];
  readonly created_at: string;
  readonly updated_at: string;
}

/** A delegation under which nothing is done any more (decision 9.4). */
export interface RevokedDelegation {
  readonly delegation_id: string;
  readonly revoked_at: string;
  readonly reason?: string;
  /** When its token ends by itself, RFC 3339; absent: not known, so it is kept until somebody removes it. */
  readonly expires_at?: string;
}
