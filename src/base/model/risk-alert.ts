/** What can be unusual about a request (specification, "Risk"; decision 9.3). */
export const RISK_SIGNALS = ['rate_spike', 'cost_anomaly', 'new_target', 'off_hours', 'deny_burst', 'prompt_size_anomaly'] as const;
export type RiskSignal = (typeof RISK_SIGNALS)[number];

/** How unusual a request is for its caller. */
export interface Risk {
  /** 0 to 1, of four decimals. */
  readonly score: number;
  /** Those that fire, in the order of the list. */
  readonly signals: readonly RiskSignal[];
}

/** What is told of a caller whose score has reached the threshold (specification, "Events"). */
export interface RiskAlert {
  readonly risk_score: number;
  readonly signals: readonly RiskSignal[];
  /** Requests a minute, this one included; decimal text. */
  readonly request_rate: string;
  /** USD a minute, of what was charged of late; decimal text. */
  readonly cost_rate: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly caller_id?: string;
  readonly record_id: string;
}
