import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { authHeaderNames, clientKey, injectAuth } from '../../outbound/connectors/auth.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { takeHost } from './resolve.ts';

/** Takes the connector that policy selected and the key that the caller brought (decisions 5.4, 6.6, 6.9, 6.10). */
export const connectorAndCredential: Stage = {
  name: 'connector and credential',
  run(exchange, pipeline) {
    return takeSelected(exchange, pipeline) ?? (exchange.request ? takeHint(exchange) : undefined);
  },
};

/** `select_connector` of a matching rule; a hint of the caller wins over it (decision 5.4). */
function takeSelected(exchange: Exchange, { catalogue }: Pipeline): Refusal | undefined {
  const selected = exchange.verdict?.effects.select_connector;
  if (selected === undefined || exchange.request?.connector_hint !== undefined) return undefined;
  if (selected === exchange.connectorId) return undefined;
  const provider = selected === GENERIC_HTTP ? undefined : catalogue.provider(selected);
  if (provider && !takeHost(exchange, provider, catalogue.providerForHost(exchange.host))) {
    return deny('connector_without_host', `Policy selected ${provider.id}, which has a host per customer, and the call names none of them.`);
  }
  exchange.provider = provider;
  exchange.connectorId = provider?.id ?? GENERIC_HTTP;
  if (provider) {
    exchange.operation = catalogue.operation(provider, exchange.method, pathOnly(exchange.path));
    exchange.actionType = exchange.operation.actionType;
    exchange.price = catalogue.price(provider.id, exchange.sendModel);
  }
  return undefined;
}

/** Ids of stored credentials have one of these forms; anything else is a raw key (decision 6.6). */
const CREDENTIAL_ID = /^(?:cred-.*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/i;

function takeHint(exchange: Exchange): Refusal | undefined {
  const hint = exchange.request?.credential_hint;
  const { provider } = exchange;
  if (hint === undefined) {
    if (!provider?.needsCredential || clientKey(provider, exchange.headers)) return undefined;
    return deny('no_credential_candidate', `The connector ${provider.id} needs a key: send it as credential_hint.`);
  }
  if (CREDENTIAL_ID.test(hint)) return deny('credential_not_found', 'There is no stored credential of this id.');
  const names = authHeaderNames(provider);
  const kept: string[] = [];
  for (let at = 0; at < exchange.headers.length; at += 2) {
    const name = exchange.headers[at] ?? '';
    if (!names.has(name.toLowerCase())) kept.push(name, exchange.headers[at + 1] ?? '');
  }
  exchange.headers = [...kept, ...injectAuth(provider, hint)];
  return undefined;
}
