/** Why nothing should be sent to a gateway (decision 12.2), the gravest first. */
export const NOT_READY = [
  'draining',
  'record_store_unavailable',
  'no_bundle',
  'policy_denies_all',
  'org_terminated',
  'org_suspended',
  'control_plane_unreachable',
  'starting',
] as const;
export type NotReady = (typeof NOT_READY)[number];

/** Something that an operator should know of a gateway that runs, told in its health (decision 12.1). */
export interface HealthWarning {
  /** Stable. */
  readonly code: string;
  readonly message: string;
}
