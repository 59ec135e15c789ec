import { GatewayError } from '../../base/lib/gateway-error.ts';
import { authHeaderNames, clientKey, injectAuth, withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import { directHeaders } from '../../outbound/connectors/direct-headers.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { takeRoute } from './resolve.ts';

/** Takes the connector that policy selected and the key that the caller brought (decisions 5.4, 6.6, 6.9, 6.10). */
export const connectorAndCredential: Stage = {
  name: 'connector and credential',
  run(exchange, pipeline) {
    const refusal = takeSelected(exchange, pipeline) ?? (exchange.request ? takeHint(exchange) : undefined);
    if (!refusal && exchange.request) addDirectHeaders(exchange);
    return refusal;
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

/** Ids of stored credentials have one of these forms; anything else is a raw key (decision 6.6). */
const CREDENTIAL_ID = /^(?:cred-.*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/i;

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

/** True when the call carries a key that its caller meant for the connector of this host and no other (decision 6.9). */
export function carriesKey(exchange: Exchange): boolean {
  return clientKey(undefined, byName(exchange.headers)) || clientKey(exchange.provider, byName(exchange.headers), exchange.path);
}

function takeHint(exchange: Exchange): Refusal | undefined {
  const hint = exchange.request?.credential_hint;
  const { provider } = exchange;
  if (hint === undefined) {
    if (!provider?.needsCredential || clientKey(provider, byName(exchange.headers), exchange.path)) return undefined;
    return deny('no_credential_candidate', `The connector ${provider.id} needs a key: send it as credential_hint.`);
  }
  if (CREDENTIAL_ID.test(hint)) return deny('credential_not_found', 'There is no stored credential of this id.');
  if (!provider) {
    const details = [{ path: 'credential_hint', message: 'has no place at a generic host; give the key in action.headers' }];
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details });
  }
  const names = authHeaderNames(provider);
  const kept: string[] = [];
  for (let at = 0; at < exchange.headers.length; at += 2) {
    const name = exchange.headers[at] ?? '';
    if (!names.has(name.toLowerCase())) kept.push(name, exchange.headers[at + 1] ?? '');
  }
  exchange.path = withoutAuthQuery(provider, exchange.path);
  exchange.headers = [...kept, ...injectAuth(provider, hint, exchange.operation?.dialect)];
  return undefined;
}

function byName(flat: readonly string[]): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < flat.length; at += 2) headers[(flat[at] ?? '').toLowerCase()] = flat[at + 1] ?? '';
  return headers;
}
