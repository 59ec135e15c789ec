/** What may be asked. `none`: anyone who reaches the port. */
export type Scope = 'none' | 'admin' | 'metrics';

/** Who asks one of the gateway's own routes, after his secret was judged. */
export interface Principal {
  /** `anyone` has shown nothing, because nothing was needed. */
  readonly kind: 'anyone' | 'admin' | 'metrics';
  /** Names this one among others of its kind; never a secret. */
  readonly id: string;
  readonly scopes: readonly Scope[];
}
