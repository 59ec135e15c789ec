/** What goes to a SIEM (specification, "Events"): the envelope, its members in the order of the specification. */
export interface EventEnvelope {
  readonly event_type: string;
  /** RFC 3339. */
  readonly event_time: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** An envelope with what the way there needs to know. */
export interface ExportedEvent {
  /** The same at every try. */
  readonly id: string;
  readonly envelope: EventEnvelope;
}
