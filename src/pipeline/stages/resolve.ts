import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ActionRequest } from '../../base/model/action-request.ts';
import { candidateConnectors, type RouteQuestion, route } from '../../decide/routing/route.ts';
import { directCall, directPath } from '../../inbound/normalise/direct-call.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import type { Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { takeCredential } from './credential.ts';

/** Which connector, which operation, which price: what policy will be asked about. */
export const resolve: Stage = {
  name: 'resolve',
  run(exchange, pipeline) {
    const { request } = exchange;
    takeRoute(exchange, pipeline, request ? { connectorHint: request.connector_hint, actionType: request.action.type } : {});
    if (request) shape(exchange, request);
    takePrice(exchange, pipeline);
    // What policy sees first is the automatic choice; whether the call may run without a credential is asked after it (decision 5.4).
    takeCredential(exchange, pipeline);
    return undefined;
  },
};

/**
 * Routes by the specified precedence and settles what follows from the connector: host (decision 6.9), path, operation, action type.
 * @param by what chooses beside the host; what was mutated goes by its host alone
 */
export function takeRoute(exchange: Exchange, pipeline: Pipeline, by: Omit<RouteQuestion, 'targetHost'>): void {
  const { catalogue, settings } = pipeline;
  const { request, host } = exchange;
  const chosen = route(catalogue, { ...by, targetHost: host }, settings.actionTypes);
  exchange.connectorId = chosen.connectorId;
  exchange.candidates = candidateConnectors(catalogue, chosen);
  const moves = chosen.targetHost !== host;
  // An operator's mapping is nothing that a caller knows of: what it brings is meant for the host that it names.
  exchange.meantFor ??=
    moves && chosen.chosenBy === 'action_type' ? route(catalogue, { targetHost: host }).connectorId : chosen.connectorId;
  if (moves) {
    exchange.host = chosen.targetHost;
    exchange.port = 443;
    exchange.tls = true;
  }
  if (request && exchange.path === '')
    exchange.path = directPath(request.action, chosen.connectorId === GENERIC_HTTP ? undefined : chosen.provider);
  const same = exchange.provider === chosen.provider && exchange.operation !== undefined;
  exchange.provider = chosen.provider;
  if (!same)
    exchange.operation = chosen.provider ? catalogue.operation(chosen.provider, exchange.method, pathOnly(exchange.path)) : HTTP_REQUEST;
  if (!request && exchange.door === 'proxied') exchange.actionType = exchange.operation?.actionType ?? 'http.request';
}

/** Of an AI call; nothing else has one, whatever its type is called. */
export function takePrice(exchange: Exchange, { catalogue }: Pipeline): void {
  const { provider, operation } = exchange;
  const isAi = provider !== undefined && operation !== undefined && operation.actionType !== 'http.request';
  exchange.price = isAi ? catalogue.price(provider.id, exchange.sendModel, exchange.createdAt) : undefined;
}

const STANDARD_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);

/** Gives a structured call its wire form. What the caller says it is must be what its path means, or rules about `action.type` could be walked around. */
function shape(exchange: Exchange, request: ActionRequest): void {
  const { action } = request;
  const { provider, operation } = exchange;
  if (!operation) return;
  if (provider && operation.known && operation.actionType !== action.type && STANDARD_TYPES.has(action.type)) {
    const message = `is ${operation.actionType} for ${exchange.method} ${pathOnly(exchange.path)} of ${provider.id}`;
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details: [{ path: 'action.type', message }] });
  }
  // As on the other doors: a POST that nobody describes is an inference, whatever its caller says it is.
  if (!operation.known && STANDARD_TYPES.has(action.type)) exchange.actionType = operation.actionType;
  if (exchange.stream && (exchange.connectorId === GENERIC_HTTP || !provider?.canStream)) {
    throw new GatewayError('streaming_not_supported', `The connector ${exchange.connectorId} does not stream on the structured API.`);
  }
  const call = directCall(action, exchange.path, operation);
  exchange.path = call.path;
  exchange.aiBody = call.body;
  exchange.params = call.body.params;
  exchange.stream = call.body.stream;
  // Of what nobody understands the caller's own words are not believed either.
  exchange.sendModel = call.body.model ?? (operation.known ? exchange.sendModel : undefined);
  exchange.sendBytes = call.body.bytes.length === 0 ? undefined : call.body.bytes;
  // What was written from the params of the envelope is what counts from here on.
  exchange.request = { ...request, action: { ...action, params: call.body.params } };
  exchange.held?.resize(call.body.bytes.length);
  exchange.parsedBytes = call.body.size;
}
