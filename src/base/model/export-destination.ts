export const EXPORT_KINDS = ['webhook', 'syslog'] as const;
export type ExportKind = (typeof EXPORT_KINDS)[number];

/** What is exported (specification, "Events"), and the audit trail. */
export const EXPORT_EVENTS = ['execution', 'approval', 'quarantine', 'risk_alert', 'audit'] as const;
export type ExportEventName = (typeof EXPORT_EVENTS)[number];

export const SYSLOG_FORMATS = ['rfc5424', 'cef'] as const;
export type SyslogFormat = (typeof SYSLOG_FORMATS)[number];

/** `json`: the envelope; `ocsf`: the Open Cybersecurity Schema Framework (decision 12.5). */
export const WEBHOOK_FORMATS = ['json', 'ocsf'] as const;
export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number];

/** `token` and `secret` are secrets: shown as a run of bullets. */
export interface WebhookConfig {
  readonly url: string;
  /** Shown as a bearer token. */
  readonly token?: string;
  /** What signatures are made with. */
  readonly secret?: string;
  /** Absent: `json`. */
  readonly format?: WebhookFormat;
}

export interface SyslogConfig {
  /** `udp://host:port`, `tcp://host:port` or `tls://host:port`. */
  readonly address: string;
  readonly format: SyslogFormat;
}

/** Where events go (specification, "Export destination"; decision 11.3). */
export interface ExportDestination {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly kind: ExportKind;
  readonly config: WebhookConfig | SyslogConfig;
  readonly enabled: boolean;
  /** The one node that it is of; absent: every node of the org that has none of its own. */
  readonly node_id?: string;
  /** Absent: all. */
  readonly event_types?: readonly ExportEventName[];
  readonly created_at: string;
}

/** An event that no try could deliver. */
export interface DeadLetter {
  /** UUIDv7. */
  readonly dead_letter_id: string;
  readonly destination_id: string;
  /** Empty for one that is of no org. */
  readonly org_id: string;
  readonly event_type: string;
  /** As receivers know it. */
  readonly event_id: string;
  readonly reason: FailureReason;
  readonly detail: string;
  readonly attempts: number;
  readonly at: string;
}

/** Why something could not be delivered. */
export const FAILURE_REASONS = [
  'client_error',
  'auth_error',
  'gone',
  'rate_limited',
  'server_error',
  'timeout',
  'tls_error',
  'unreachable',
  'egress_denied',
  'not_configured',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];
