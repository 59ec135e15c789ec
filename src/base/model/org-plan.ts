/** What an org may do in a month, as it was put for it; what is absent is as the settings say. */
export interface OrgPlan {
  readonly org_id: string;
  /** Requests in a UTC calendar month; null: as many as it likes. */
  readonly monthly_request_limit?: number | null;
  /** Lets requests pass the limit. */
  readonly overage_enabled?: boolean;
}
