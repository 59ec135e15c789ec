/** Filters of a list; undefined: all. */
export interface ApprovalFilters {
  readonly org: string | undefined;
  readonly workload: string | undefined;
  readonly status: string | undefined;
}

/** Approvals of a running gateway, whoever asks. */
export interface ApprovalsAccess {
  /** The newest first, at most `most`. */
  each(filters: ApprovalFilters, most: number): AsyncGenerator<unknown>;
  one(id: string): Promise<unknown>;
  decide(id: string, verb: 'approve' | 'deny', body: Readonly<Record<string, unknown>>): Promise<unknown>;
}
