import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { usualOrigin } from '../../base/catalogue/custom-row.ts';
import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import { type ChosenConnector, candidateConnectors, chooseConnector, type RouteQuestion } from '../../decide/routing/choose-connector.ts';
import { directPath } from '../../inbound/normalise/direct-call.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Arrived, CallRoute, Claims, ReceivedAction, WireCall } from '../parts/parts.ts';

const HTTPS_PORT = 443;

/** A call with its connector. */
export type Connected = WireCall & Pick<CallRoute, 'connectorId' | 'candidates' | 'meantFor'>;

export interface ConnectorQuestion {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly call: WireCall;
  /** What chooses beside the host; what was mutated goes by its host alone. */
  readonly by: Omit<RouteQuestion, 'targetHost'>;
  /** The connector that the call was meant for, when that is settled. */
  readonly meantFor: string | undefined;
}

/**
 * Routes by the specified precedence and settles what follows from the connector: host (decision 6.9), path, operation,
 * action type.
 * @throws GatewayError `invalid_request` as {@link chooseConnector}
 */
export function connect({ arrival, claims, action, call, by, meantFor }: ConnectorQuestion, settings: PipelineSettings): Connected {
  const { catalogue } = claims;
  const found = chooseConnector(catalogue, { ...by, targetHost: call.host }, settings.actionTypes);
  const chosen = call.operation?.rest === true && found.chosenBy === 'target_host' ? asOtherHost(found) : found;
  const moves = chosen.targetHost !== call.host;
  const { provider } = chosen;
  const origin = moves || takesPort({ action, call }, chosen) ? usualOrigin(provider) : call;
  const path = action.isEnvelope ? envelopePath(action, call, chosen) : call.path;
  const isSame = call.provider === provider && call.operation !== undefined;
  const operation = isSame ? call.operation : provider ? catalogue.operation(provider, call.method, pathOnly(path)) : HTTP_REQUEST;
  // Member by member, as everywhere on the path of a call: to spread an object of this size costs microseconds.
  return {
    method: call.method,
    host: chosen.targetHost,
    port: origin.port,
    tls: origin.tls,
    path,
    provider,
    operation,
    actionType: arrival.line === 'proxied' ? (operation?.actionType ?? 'http.request') : call.actionType,
    stream: call.stream,
    model: call.model,
    connectorId: chosen.connectorId,
    candidates: candidateConnectors(catalogue, chosen),
    // An operator's mapping is nothing that a caller knows of: what it brings is meant for the host that it names.
    meantFor:
      meantFor ??
      (moves && chosen.chosenBy === 'action_type' ? chooseConnector(catalogue, { targetHost: call.host }).connectorId : chosen.connectorId),
  };
}

/** Of a structured call that names no path it is the usual one of its connector. */
function envelopePath({ request }: ReceivedAction, { path }: WireCall, { connectorId, provider }: ChosenConnector): string {
  return path === '' ? directPath(request.action, connectorId === GENERIC_HTTP ? undefined : provider) : path;
}

/** The rest of a shared host goes as what is sent to any host that no connector has (decision 3.8). */
function asOtherHost(chosen: ChosenConnector): ChosenConnector {
  return { ...chosen, connectorId: GENERIC_HTTP, provider: undefined, chosenBy: 'fallback' };
}

/** A structured call names a host; which port that has is what a custom connector says. */
function takesPort({ action, call }: Pick<ConnectorQuestion, 'action' | 'call'>, { connectorId, provider }: ChosenConnector): boolean {
  return action.isEnvelope && call.port === HTTPS_PORT && provider?.custom !== undefined && connectorId === provider.id;
}
