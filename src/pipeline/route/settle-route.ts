import type { CredentialSelection } from '../../decide/routing/choose-credential.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Arrived, CallRoute, Claims, Content, ReceivedAction, Target } from '../parts/parts.ts';
import type { Connected } from './call-connector.ts';
import { chooseFor } from './call-credential.ts';
import { worthOf } from './worth.ts';

export interface RoutedCall {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly target: Target;
  readonly action: ReceivedAction;
  readonly call: Connected;
  readonly content: Content;
  /** The credential that policy selected, once it was asked. */
  readonly select: CredentialSelection | undefined;
  /** What the request is judged by. */
  readonly active: ActivePolicy;
}

/**
 * All that follows from the connector of a call: credential, price and estimate. Asked when the connector is known, and
 * again when policy has changed what these depend on (decision 5.4).
 */
export function settleRoute({ arrival, claims, target, action, call, content, select, active }: RoutedCall, pipeline: Pipeline): CallRoute {
  const { credentialCandidates, credential, credentialId } = chooseFor(
    { claims, action, call, headers: content.headers, select, switches: active.switches },
    pipeline,
  );
  const { price, estimate, named } = worthOf(
    { arrival, claims, action, call, content, opensSocket: target.opensSocket },
    pipeline.settings,
  );
  return {
    method: call.method,
    host: call.host,
    port: call.port,
    tls: call.tls,
    path: call.path,
    provider: call.provider,
    operation: call.operation,
    actionType: call.actionType,
    stream: call.stream,
    model: call.model,
    connectorId: call.connectorId,
    candidates: call.candidates,
    meantFor: call.meantFor,
    credentialCandidates,
    credential,
    credentialId,
    price,
    estimate,
    named,
  };
}
