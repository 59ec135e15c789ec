/** A delegation under which nothing is done any more (decision 9.4). */
export interface RevokedDelegation {
  readonly delegation_id: string;
  readonly revoked_at: string;
  readonly reason?: string;
  /** When its token ends by itself, RFC 3339; absent: not known, so it is kept until somebody removes it. */
  readonly expires_at?: string;
}
