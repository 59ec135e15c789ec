/** The trace that a call belongs to (W3C Trace Context). */
export interface CallTrace {
  /** 32 lower-case hex digits. */
  readonly traceId: string;
  /** The span that the call was made in, 16 lower-case hex digits; undefined: the trace begins here. */
  readonly parentId: string | undefined;
  /** That span is one of another program. */
  readonly parentIsRemote: boolean;
  /** The spans of this gateway; undefined where it has none, and passes on what the caller sent. */
  readonly own: OwnSpans | undefined;
}

/** The spans that a gateway makes of one call. */
export interface OwnSpans {
  /** The call as the gateway got it. */
  readonly server: string;
  /** The call to the provider. */
  readonly client: string;
  /** They are sent to the receiver of traces. */
  readonly sampled: boolean;
  /** `trace-flags` of what is passed on. */
  readonly flags: number;
  /** `tracestate` as it came; undefined: none, or none that is valid. */
  readonly state: string | undefined;
}
