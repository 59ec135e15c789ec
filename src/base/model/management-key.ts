/** `management`: for `/mgmt/v1`. `mcp`: for `/mcp`. Neither opens the other's surface (specification, "Authentication" 4). */
export const MANAGEMENT_KEY_KINDS = ['management', 'mcp'] as const;
export type ManagementKeyKind = (typeof MANAGEMENT_KEY_KINDS)[number];

export const KEY_SCOPES = ['read', 'write'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

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
  readonly created_at: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
}
