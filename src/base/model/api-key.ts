/** A key by which programs of one org are let in (specification, "Authentication" 2). The key itself is nowhere: only its SHA-256 is stored. */
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
