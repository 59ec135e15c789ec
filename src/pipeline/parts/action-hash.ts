import { CanonicalJsonError, canonicalJson } from '../../base/json/jcs.ts';
import { isUnambiguousJson } from '../../base/json/unambiguous-json.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { hidesSomething } from '../../decide/policy/hidden.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import { withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import type { BoundPlace } from './approving.ts';
import { ownHeaders } from './own-headers.ts';
import type { Arrived, CallRoute, Claims, Content, Intake, Parts, ReceivedAction } from './parts.ts';

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

type Read = Pick<Parts, 'arrival' | 'action' | 'asked'> & { readonly intake?: Intake | undefined };

/**
 * Whether everything of a request that could matter is in its action hash: then what is approved is what runs (decision
 * 9.1). The hash covers what we read; a body that is sent as it came must then say the same to every other reader.
 */
export function isBound({ arrival, action, asked, intake }: Read, facts: Facts): boolean {
  if (action.isEnvelope) return true;
  if (intake?.streamed !== undefined || hidesSomething(facts)) return false;
  const { body } = asked;
  if (body === undefined) return (intake?.requestBytes ?? 0) === 0;
  // On a socket it is the event that goes on.
  return body.kind === 'empty' || (body.kind === 'json' && isUnambiguousJson(arrival.socketCall?.event?.text ?? body.text));
}

/** What policy says of a call that needs an approval and is not bound. */
export function cannotWait(verdict: Verdict): Verdict {
  const reason = `${verdict.reason ?? 'approval_required'}; this call cannot wait for an approval, because not all of its body is read, or it could be read in two ways, or has no canonical form`;
  return { ...verdict, reason, reason_codes: [...verdict.reason_codes, 'approval_not_possible'] };
}
