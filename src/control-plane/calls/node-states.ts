import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { OrgState, Stale, Versions } from '../proto/messages.ts';
import type { Peer } from '../proto/peer.ts';
import { ProtocolError } from '../proto/protocol-error.ts';
import type { Org, Resource } from '../state/control-plane-state.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';

/** Who calls, and what every answer tells him of his org and of what he lacks. */
export class NodeStates {
  readonly #state: StoredControlPlane;
  readonly #log: Logger;

  constructor(state: StoredControlPlane, log: Logger) {
    this.#state = state;
    this.#log = log;
  }

  /** Who calls, who is there with it. @throws ProtocolError as {@link who} */
  caller(peer: Peer): NodeId {
    const { certificate } = peer;
    const node = this.who(peer);
    if (certificate !== undefined) this.#state.registers.nodes.shown(certificate);
    this.seen(node);
    return node;
  }

  /**
   * @throws ProtocolError UNAUTHENTICATED without a certificate that is good; PERMISSION_DENIED for one that counts no
   * longer, and where the org is gone
   */
  who({ certificate }: Peer): NodeId {
    if (certificate === undefined)
      throw new ProtocolError(
        'UNAUTHENTICATED',
        'no certificate of this control plane was shown, or it has expired: enrol with a new bootstrap token',
      );
    const { nodes, register } = this.#state.registers;
    const holder = nodes.holderOf(certificate);
    if (holder === 'expired') throw new ProtocolError('UNAUTHENTICATED', 'the certificate has expired: enrol with a new bootstrap token');
    if (holder === 'revoked')
      throw new ProtocolError('PERMISSION_DENIED', 'the certificate of this node was revoked, or another has taken its place');
    if (register.find(holder.orgId) === undefined) throw new ProtocolError('PERMISSION_DENIED', `there is no org ${holder.orgId}`);
    return holder;
  }

  /** A node is there. */
  seen(node: NodeId): void {
    const { nodes } = this.#state.registers;
    nodes
      .heard(node)
      .catch((error: unknown) => this.#log.warn({ err: error, node_id: node.nodeId }, 'that a node was there could not be stored'));
  }

  /** The org of a node, with what the node lacks by what it has said last. */
  stateFor(node: NodeId): OrgState {
    return this.#stateWith(node, this.#state.registers.nodes.said(node));
  }

  /**
   * Takes in what a node says of its versions. A gateway is told no version of API keys with them, so that one which
   * names none is taken to have forgotten what it was told to forget at its check-in before.
   * @returns the org, with what the node lacks
   */
  async takeVersions(
    node: NodeId,
    said: Versions,
    { gatewayVersion, policy }: { readonly gatewayVersion: string | undefined; readonly policy?: { sequence: number; kid: string } },
  ): Promise<OrgState> {
    const { nodes } = this.#state.registers;
    const { api_keys: present } = this.#state.presentVersions(node.orgId);
    const { api_keys: before } = nodes.said(node);
    const state = this.#stateWith(node, { ...said, api_keys: said.api_keys === '' ? before : said.api_keys });
    try {
      await nodes.heard(node, {
        versions: { ...said, api_keys: said.api_keys === '' ? present : said.api_keys },
        gatewayVersion,
        ...(policy && { policy }),
      });
    } catch (error) {
      // It holds in memory. On a full disk nobody is to count as without contact because of that; after a restart the
      // node lacks more than it does, and fetches it.
      if (!(error instanceof GatewayError) || error.code !== 'record_store_unavailable') throw error;
      this.#log.warn(
        { err: error, node_id: node.nodeId },
        'what a node says of its versions could not be stored; it counts until a restart',
      );
    }
    return state;
  }

  #stateWith({ orgId }: NodeId, said: Readonly<Record<Resource, string>>): OrgState {
    const org = this.#state.registers.register.find(orgId);
    if (org === undefined) throw new ProtocolError('PERMISSION_DENIED', `there is no org ${orgId}`);
    return orgState(org, this.#stale(orgId, said));
  }

  #stale(orgId: string, said: Readonly<Record<Resource, string>>): Stale {
    const present = this.#state.presentVersions(orgId);
    const differs = (name: Resource): boolean => present[name] !== '' && present[name] !== said[name];
    return {
      policy: differs('policy'),
      workloads: differs('workloads'),
      credentials: differs('credentials'),
      export_config: differs('export_config'),
      addons: differs('addons'),
      api_keys: differs('api_keys'),
      keys: differs('keys'),
      overlays: differs('overlays'),
    };
  }
}

function orgState(org: Org, stale: Stale): OrgState {
  return {
    status: org.status,
    suspended_reason: org.suspended_reason ?? '',
    plan_tier: org.plan_tier,
    cp_down_policy: org.cp_down_policy,
    redis_down_policy: org.redis_down_policy,
    grace_seconds: org.grace_seconds,
    gateway_writes: org.gateway_writes,
    monthly_request_limit: org.monthly_request_limit === null ? '' : String(org.monthly_request_limit),
    overage_enabled: org.overage_enabled,
    stale,
  };
}
