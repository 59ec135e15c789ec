import { canonicalConnectorId, GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import type { Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ActionRequest } from '../../base/model/action-request.ts';
import { directCall, directPath } from '../../inbound/normalise/direct-call.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import type { Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Which connector, which operation, which price: what policy will be asked about. */
export const resolve: Stage = {
  name: 'resolve',
  run(exchange, pipeline) {
    if (exchange.request) resolveDirect(exchange, exchange.request, pipeline);
    else exchange.connectorId = exchange.provider?.id ?? GENERIC_HTTP;
    if (exchange.provider && exchange.actionType !== 'http.request') {
      exchange.price = pipeline.catalogue.price(exchange.provider.id, exchange.sendModel);
    }
    return undefined;
  },
};

/** Routing precedence of the specification; a hint comes before the host (none of the types is mapped to a connector yet). */
function resolveDirect(exchange: Exchange, request: ActionRequest, pipeline: Pipeline): void {
  const { catalogue } = pipeline;
  const { action, connector_hint: hint } = request;
  const provider = hint === undefined ? catalogue.providerForHost(exchange.host) : hinted(hint, exchange, pipeline);
  exchange.provider = provider;
  exchange.connectorId = provider?.id ?? GENERIC_HTTP;
  exchange.path = directPath(action, provider);
  const operation = provider ? catalogue.operation(provider, exchange.method, pathOnly(exchange.path)) : HTTP_REQUEST;
  exchange.operation = operation;
  if (provider && operation.known && operation.actionType !== action.type && STANDARD_TYPES.has(action.type)) {
    const message = `is ${operation.actionType} for ${exchange.method} ${pathOnly(exchange.path)} of ${provider.id}`;
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details: [{ path: 'action.type', message }] });
  }
  if (exchange.stream && !provider?.canStream) {
    throw new GatewayError('streaming_not_supported', `The connector ${exchange.connectorId} does not stream on the structured API.`);
  }
  const call = directCall(action, exchange.path, operation);
  exchange.path = call.path;
  exchange.aiBody = call.body;
  exchange.params = call.body.params;
  exchange.sendModel = call.body.model ?? exchange.sendModel;
  exchange.sendBytes = call.body.bytes.length === 0 ? undefined : call.body.bytes;
}

const STANDARD_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);

/** The connector that is taken fixes the host (decision 6.9); one with a host per customer takes the named one if it is its own. */
function hinted(hint: string, exchange: Exchange, { catalogue }: Pipeline): Provider | undefined {
  const id = canonicalConnectorId(catalogue, hint);
  if (id === undefined) {
    const details = [{ path: 'connector_hint', message: 'is not a registered connector' }];
    throw new GatewayError('invalid_request', `There is no connector ${hint}.`, { details });
  }
  if (id === GENERIC_HTTP) return undefined;
  const provider = catalogue.provider(id);
  if (provider && !takeHost(exchange, provider, catalogue.providerForHost(exchange.host))) {
    const details = [{ path: 'action.target_host', message: `is not a host of ${provider.id}, which has one per customer` }];
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details });
  }
  return provider;
}

/** Moves a call to the host of its connector, unless it goes to one of them already. False when the connector has no host of its own. */
export function takeHost(exchange: Exchange, provider: Provider, present: Provider | undefined): boolean {
  if (present?.id === provider.id) return true;
  const host = provider.hosts[0];
  if (host === undefined) return false;
  exchange.host = host;
  exchange.port = 443;
  exchange.tls = true;
  return true;
}
