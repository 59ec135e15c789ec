export const CREDENTIAL_MODES = ['byok', 'alias'] as const;
export type CredentialMode = (typeof CREDENTIAL_MODES)[number];

/** `ai_provider`: a key of an AI provider, distributed to nodes. `export_auth`: for export destinations, never distributed. */
export const CREDENTIAL_TYPES = ['ai_provider', 'export_auth'] as const;

/** `org_wide`: every node has it. `node_scoped`: only nodes with an explicit assignment. Fixed when the credential is made. */
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
