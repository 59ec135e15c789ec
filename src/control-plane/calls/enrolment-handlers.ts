import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { IssuedCertificate } from '../pki/node-authority.ts';
import { keyOfRequest } from '../pki/signing-request.ts';
import type { EnrolledResponse, EnrollRequest, EnrolmentCalls } from '../proto/messages.ts';
import { hostOf, type Peer } from '../proto/peer.ts';
import { ProtocolError } from '../proto/protocol-error.ts';
import type { Handlers } from '../proto/protocol-server.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';
import { invalid, shortText } from './checked-input.ts';
import type { CountedCalls } from './counted-calls.ts';
import type { NodeStates } from './node-states.ts';

const MAX_GATEWAY_VERSION = 64;
const MAX_TOKEN = 256;
/** What `GW_NODE_ID` takes. */
const NODE_ID = /^[A-Za-z0-9._-]{1,64}$/;

export interface EnrolmentOptions {
  readonly state: StoredControlPlane;
  readonly states: NodeStates;
  readonly counted: CountedCalls;
}

/** Who has a bootstrap token becomes a node, and a node gets its next certificate (decision 13.7). */
export class EnrolmentHandlers {
  readonly #options: EnrolmentOptions;
  readonly handlers: Handlers<EnrolmentCalls>;

  constructor(options: EnrolmentOptions) {
    this.#options = options;
    this.handlers = { Enroll: (request, peer) => options.counted.run('Enroll', () => this.#enrol(request, peer)) };
  }

  /** The next certificate of a node, for the key of the request. Those before count until they end. */
  async renew(node: NodeId, csr: Uint8Array, peer: Peer): Promise<EnrolledResponse> {
    const { state } = this.#options;
    const certificate = await state.authorities.ofNodes.issueForNode(node.orgId, node.nodeId, keyOfRequest(csr));
    try {
      await state.registers.nodes.renew(node, certificate, peer.certificate, this.#commit(node, 'protocol.renew', peer));
    } catch (error) {
      throw error instanceof GatewayError && error.code === 'not_found' ? revoked(error) : error;
    }
    return this.#answer(node, certificate);
  }

  async #enrol(request: EnrollRequest, peer: Peer): Promise<EnrolledResponse> {
    const { state } = this.#options;
    const { tokens, register, nodes } = state.registers;
    const { node, gatewayVersion } = checked(request);
    const use = register.find(node.orgId) === undefined ? undefined : await tokens.use(request.bootstrap_token, node.orgId);
    // In one form, so that nobody learns which orgs there are.
    if (use === undefined) throw refused();
    // Judged behind the token: a signature costs more than a look at the store.
    const certificate = await state.authorities.ofNodes.issueForNode(node.orgId, node.nodeId, keyOfRequest(request.csr));
    try {
      await nodes.enrol(node, certificate, gatewayVersion, use, this.#commit(node, 'protocol.enroll', peer));
    } catch (error) {
      // Of two who show the same token, or are the same node, one was first.
      if (
        error instanceof GatewayError &&
        error.code === 'conflict' &&
        (await tokens.use(request.bootstrap_token, node.orgId)) === undefined
      )
        throw refused();
      throw error;
    }
    return this.#answer(node, certificate);
  }

  #answer(node: NodeId, { der, ca, notAfter }: IssuedCertificate): EnrolledResponse {
    const { state, states } = this.#options;
    // That which has signed it may not be the first any more.
    const trusted = state.authorities.trusted;
    const issuer = trusted.find(({ kid }) => kid === ca) ?? state.authorities.ofNodes;
    return {
      certificate: der,
      ca_certificate: issuer.certificate,
      expires_at: timestamp(notAfter),
      org: states.stateFor(node),
      trusted_ca_certificates: trusted.map(({ certificate }) => certificate),
    };
  }

  #commit({ orgId, nodeId }: NodeId, operation: string, peer: Peer): Commit {
    const principal: Pick<Principal, 'kind' | 'id'> = { kind: 'node', id: `${orgId}/${nodeId}` };
    return this.#options.state.audit.commitFor({ principal, operation, from: hostOf(peer) });
  }
}

function checked(request: EnrollRequest): { readonly node: NodeId; readonly gatewayVersion: string } {
  const { org_id: orgId, node_id: nodeId } = request;
  shortText('bootstrap_token', request.bootstrap_token, MAX_TOKEN);
  shortText('org_id', orgId, 64);
  if (!NODE_ID.test(nodeId)) throw invalid('node_id', 'must be 1 to 64 letters, digits, ., _ and -');
  const gatewayVersion = shortText('gateway_version', request.gateway_version, MAX_GATEWAY_VERSION);
  return { node: { orgId, nodeId }, gatewayVersion };
}

/** While it asked. */
function revoked(cause: GatewayError): ProtocolError {
  return new ProtocolError('PERMISSION_DENIED', 'the certificate of this node was revoked', { cause });
}

function refused(): ProtocolError {
  return new ProtocolError('UNAUTHENTICATED', 'the bootstrap token is not known for this org, was used, or has expired: ask for a new one');
}
