import { GatewayError } from '../../base/lib/gateway-error.ts';
import { directHeaders } from '../../outbound/connectors/direct-headers.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { byName } from '../flat-headers.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { takeCredential } from './credential.ts';
import { takeRoute } from './resolve.ts';

/** Takes the connector and the credential that policy selected (decisions 5.4, 6.6, 6.9, 6.10). */
export const connectorAndCredential: Stage = {
  name: 'connector and credential',
  run(exchange, pipeline) {
    const refusal = takeSelected(exchange, pipeline);
    if (refusal) return refusal;
    takeCredential(exchange, pipeline);
    if (exchange.request) addDirectHeaders(exchange);
    return undefined;
  },
};

/** `select_connector` of a matching rule; a hint of the caller wins over it (decision 5.4). */
function takeSelected(exchange: Exchange, pipeline: Pipeline): Refusal | undefined {
  const selected = exchange.verdict?.effects.select_connector;
  if (selected === undefined || exchange.request?.connector_hint !== undefined || selected === exchange.connectorId) return undefined;
  try {
    takeRoute(exchange, pipeline, { selectConnector: selected });
    return undefined;
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error;
    return deny('connector_without_host', `Policy selected ${selected}, which has a host per customer, and the call names none of them.`);
  }
}

/** What the wire format of a structured call needs beyond the headers that the caller set. */
function addDirectHeaders(exchange: Exchange): void {
  const set = byName(exchange.headers);
  const { provider, operation, sendBytes } = exchange;
  const added = directHeaders({
    provider,
    dialect: operation?.dialect,
    hasBody: sendBytes !== undefined,
    idempotencyKey: exchange.request?.idempotency_key,
    callerSet: (name) => Object.hasOwn(set, name),
  });
  if (added.length > 0) exchange.headers = [...exchange.headers, ...added];
}
