/** What may be asked. `none`: anyone who reaches the port. `org`: what concerns one org, which its API keys may ask too (decision 3.6). */
export type Scope = 'none' | 'admin' | 'metrics' | 'org';

/** Who asks one of the gateway's own routes, after his secret was judged. */
export interface Principal {
  /** `anyone` has shown nothing, because nothing was needed. */
  readonly kind: 'anyone' | 'admin' | 'metrics' | 'api_key';
  /** Names this one among others of its kind; never a secret. */
  readonly id: string;
  /** The one org that it may ask about; undefined: all. */
  readonly orgId?: string;
  readonly scopes: readonly Scope[];
}
