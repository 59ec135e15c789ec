/**
 * What may be asked. `none`: anyone who reaches the port. `org`: what concerns one org, which its API keys may ask too (decision 3.6). `read`, `write`: what a management
 * key may do in its org (specification, "Authentication" 4). `mcp`: to speak MCP at all; what each tool needs is judged with it.
 */
export type Scope = 'none' | 'admin' | 'metrics' | 'org' | 'read' | 'write' | 'mcp';

/** Who asks one of the gateway's own routes, after his secret was judged. */
export interface Principal {
  /** `anyone` has shown nothing, because nothing was needed. `node`: a gateway, at its control plane, or at itself for what its settings say. */
  readonly kind: 'anyone' | 'admin' | 'metrics' | 'api_key' | 'management_key' | 'mcp_key' | 'node';
  /** Names this one among others of its kind; never a secret. */
  readonly id: string;
  /** For people; absent: the id is. */
  readonly name?: string;
  /** The one org that it may ask about; undefined: all. */
  readonly orgId?: string;
  readonly scopes: readonly Scope[];
}
