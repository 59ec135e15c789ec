import { CanonicalJsonError, canonicalJson } from '../../base/json/jcs.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import type { BoundPlace } from './approving.ts';
import { ownHeaders } from './own-headers.ts';
import type { Arrived, CallRoute, Claims, Content, ReceivedAction } from './parts.ts';

/** A request as it was received. */
export interface ReceivedCall {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly content: Content;
}

/** Where a route leads. */
export function boundPlace({ connectorId, host, port, tls, path, provider, meantFor }: CallRoute, { catalogue }: Claims): BoundPlace {
  const scheme = tls ? 'https' : 'http';
  const usual = tls ? 443 : 80;
  return {
    connector_id: connectorId,
    target_host: host,
    ...(tls && port === usual
      ? {}
      : { target_origin: `${scheme}://${host.includes(':') ? `[${host}]` : host}${port === usual ? '' : `:${port}`}` }),
    target_path: withoutAuthQuery(catalogue.provider(meantFor), withoutAuthQuery(provider, path)),
  };
}

/**
 * SHA-256 over the RFC 8785 form of the action as it was received, with the place where it goes as that was settled:
 * what an idempotency key and an approval are good for (decisions 6.7, 9.1).
 * @throws CanonicalJsonError for a body that has no canonical form
 */
export function actionHashOf(
  { arrival, action, content }: ReceivedCall,
  place: BoundPlace,
  { provider }: Pick<CallRoute, 'provider'>,
): string {
  const { org_id, workload_id, action: asked } = action.request;
  const { type, method, params } = asked;
  return sha256Hex(
    canonicalJson({ org_id, workload_id, type, method, ...place, params, headers: headersOf(arrival, action, content, provider) }),
  );
}

/** The same; undefined for a body that has no canonical form. */
export function actionHashIfAny(call: ReceivedCall, route: CallRoute): string | undefined {
  try {
    return actionHashOf(call, boundPlace(route, call.claims), route);
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined;
    throw error;
  }
}

/** On the structured API all that the caller has set there; the head of a CONNECT goes to nobody. */
function headersOf(
  { line }: Arrived,
  action: ReceivedAction,
  { headers }: Content,
  provider: CallRoute['provider'],
): Readonly<Record<string, string>> {
  if (line === 'tunnel') return {};
  if (!action.isEnvelope) return ownHeaders(headers, provider);
  return Object.fromEntries(Object.entries(action.request.action.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Whether two routes lead to the same place. */
export function isSamePlace(one: CallRoute, other: CallRoute): boolean {
  return (
    one === other ||
    (one.connectorId === other.connectorId &&
      one.host === other.host &&
      one.port === other.port &&
      one.tls === other.tls &&
      one.path === other.path)
  );
}
