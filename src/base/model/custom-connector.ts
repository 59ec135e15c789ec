/** How a custom connector is given its key. */
export const CUSTOM_AUTH_MODES = ['bearer', 'header', 'query', 'none'] as const;
export type CustomAuthMode = (typeof CUSTOM_AUTH_MODES)[number];

/** The wire formats that it may speak; each has a row in `custom_connectors` of the catalogue. */
export const CUSTOM_DIALECTS = ['openai', 'anthropic'] as const;
export type CustomDialect = (typeof CUSTOM_DIALECTS)[number];

/** A connector that an org has made (specification, "Custom connector"). */
export interface CustomConnector {
  /** Its connector id is `custom:` and this. */
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  /** `https://HOST[:PORT][/PATH]`, canonical, without a slash at its end. */
  readonly base_url: string;
  readonly dialect: CustomDialect;
  readonly auth_mode: CustomAuthMode;
  /** Lower-case name of the header that carries the key; of the mode `header` alone. */
  readonly auth_header?: string;
  /** Name of the query parameter that does; of the mode `query` alone. */
  readonly auth_query?: string;
  /** Of a structured call that names no model. */
  readonly default_model?: string;
  readonly enabled: boolean;
  /** RFC 3339. */
  readonly created_at: string;
  readonly updated_at: string;
}
