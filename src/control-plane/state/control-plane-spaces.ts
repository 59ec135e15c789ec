import type { EntityKind } from './control-plane-state.ts';

/** Where the control plane keeps what it keeps. Keys begin with the org; no id holds a space, which ends it there. */
export const SPACE = {
  orgs: 'cp_org',
  versions: 'cp_versions',
  updates: 'cp_update',
  tokens: 'cp_bootstrap_token',
  apiKeys: 'cp_api_key',
  bundles: 'cp_bundle',
  overlays: 'cp_overlay',
  nodes: 'cp_node',
  seen: 'cp_node_seen',
  telemetry: 'cp_telemetry',
  signingKeys: 'cp_signing_key',
  timestamps: 'cp_timestamp',
  timestampHeads: 'cp_timestamp_head',
  logEntries: 'cp_log_entry',
  logEntryHeads: 'cp_log_entry_head',
  checkpoints: 'cp_checkpoint',
  checkpointHeads: 'cp_checkpoint_head',
} as const;

/** Entities of an org, by their kind. */
export const ENTITY_SPACE: Readonly<Record<EntityKind, string>> = {
  workloads: 'cp_workload',
  credentials: 'cp_credential',
  'export-destinations': 'cp_export_destination',
  addons: 'cp_addon',
};

/** Of something that an org has. */
export function keyIn(orgId: string, id: string): string {
  return `${orgId} ${id}`;
}

/** What the keys of an org's things begin with. */
export function prefixOf(orgId: string): string {
  return `${orgId} `;
}
