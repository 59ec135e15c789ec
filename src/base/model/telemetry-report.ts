export const TELEMETRY_SCHEMA = 'gw.telemetry.v2';

/** Counts by name; every name is one that the shipped tables know, or `other`. */
export type CountsByName = Readonly<Record<string, number>>;

/** What went to one provider in a window. Tokens are those of allowed requests alone. */
export interface ProviderUsage {
  readonly requests: number;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly models: CountsByName;
  readonly domains: CountsByName;
  readonly connection_types: CountsByName;
}

/**
 * One usage report (specification, "Usage telemetry"; decision 12.6). It holds nothing that somebody has written, and
 * nobody's name, key or address.
 */
export interface TelemetryReport {
  readonly schema: typeof TELEMETRY_SCHEMA;
  /** Random, another at each start. */
  readonly instance_id: string;
  /** Of the gateway. */
  readonly version: string;
  /** RFC 3339. */
  readonly window_start: string;
  /** RFC 3339. */
  readonly window_end: string;
  readonly providers: Readonly<Record<string, ProviderUsage>>;
  readonly decisions: CountsByName;
  readonly action_types: CountsByName;
  /** How often the risk score of a caller went from below 0.7 to 0.7 or more. */
  readonly risk_alerts: number;
}

/** What became of a report. */
export interface SentReport {
  readonly delivered: boolean;
  /** What came back, or why nothing did. */
  readonly detail: string;
  /** How long the receiver wants to hear nothing, milliseconds; undefined: it has not said. */
  readonly pauseMs: number | undefined;
}

/** A way out for reports. It never rejects: a report that fails is over. */
export type SendReport = (report: TelemetryReport, signal: AbortSignal) => Promise<SentReport>;
