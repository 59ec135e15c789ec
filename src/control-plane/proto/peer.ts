/** Who is at the other end of a call. */
export interface Peer {
  /** Address and port. */
  readonly address: string;
  /**
   * DER of the client certificate that the CA has signed and whose key the caller has; undefined: he has shown none.
   */
  readonly certificate: Uint8Array | undefined;
}

/** A node, as its certificate says. */
export interface CallingNode {
  readonly orgId: string;
  readonly nodeId: string;
}

/** The address of a peer without its port. */
export function hostOf({ address }: Pick<Peer, 'address'>): string {
  return address.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
