/** Chargeback context of a request or a default for it. An absent member means that nobody gave it. */
export interface Attribution {
  readonly customer_id?: string;
  readonly account_id?: string;
  readonly project_id?: string;
  readonly labels?: Readonly<Record<string, string>>;
}
