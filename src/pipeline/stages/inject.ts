import { GatewayError } from '../../base/lib/gateway-error.ts';
import { injectAuth, injectedQuery, isSignature, signedHeaders, withoutAuth, withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import { hostHeader } from '../../outbound/net/request-head.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { CallMutation, Dressed, Parts } from '../parts/parts.ts';
import { deny } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { byName, outboundHeaders } from '../route/outbound-headers.ts';
import { meantProvider } from '../route/settle-route.ts';

const READ = ['arrival', 'claims', 'action', 'facts', 'mutation', 'mutated', 'route'] as const;
type Read = Pick<Parts, (typeof READ)[number]>;

/** Written by the net room from what is sent; with the body as it came they are what they were. */
const FOLLOWS_BODY = 'content-length';

/**
 * Puts the key into the call, at the very end, when the host that it goes to is settled; every auth header that was
 * there goes (decision 8.4). A call that its caller signed (AWS Signature Version 4) goes out exactly as it was signed,
 * or not at all: the provider would refuse it, and not say who changed it.
 */
export const inject = defineStage({
  name: 'inject',
  reads: READ,
  makes: ['dressed'],
  run(parts, { credentials, log, settings }) {
    const { arrival, claims, action, route, mutated } = parts;
    const { credential } = route;
    switch (credential?.kind) {
      case 'stored': {
        const secret = credentials.secretOf(claims.orgId, credential.credentialId);
        if (secret === undefined) return deny('no_credential_candidate', 'The credential of this call has just been removed.');
        return { dressed: withKey({ claims, route, mutated }, secret) };
      }
      case 'hint':
        return { dressed: withKey({ claims, route, mutated }, action.request.credential_hint ?? '') };
      case 'refused':
        return deny(credential.code, credential.reason);
      case 'caller':
        // What the toggle lets through is always told, unlike elsewhere: in the log and in the record.
        if (credential.passthrough)
          log.info({ record_id: arrival.recordId, connector_id: route.connectorId }, "the caller's own Authorization is passed through");
        return asItCame(parts, credential.passthrough, settings);
      default:
        return asItCame(parts, false, settings);
    }
  },
});

function withKey({ claims, route, mutated }: Pick<Parts, 'claims' | 'route' | 'mutated'>, key: string): Dressed {
  const { provider } = route;
  if (!provider) {
    const details = [{ path: 'credential_hint', message: 'has no place at a generic host; give the key in action.headers' }];
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details });
  }
  const meant = meantProvider(route, claims);
  const came = meant === provider ? mutated.headers : withoutAuth(meant, mutated.headers);
  return {
    path: withoutAuthQuery(meant, withoutAuthQuery(provider, route.path)),
    query: injectedQuery(provider, key),
    headers: [...withoutAuth(provider, came), ...injectAuth(provider, key, route.operation?.dialect)],
    oauthPassthrough: false,
    // A key of ours takes the place of a signature.
    signed: undefined,
  };
}

/** With nothing of ours in it. */
function asItCame(
  parts: Read,
  oauthPassthrough: boolean,
  settings: PipelineSettings,
): { readonly dressed: Dressed } | EndedWith<'dressed'> {
  const { arrival, action, route, mutated } = parts;
  const dressed: Dressed = { path: route.path, query: undefined, headers: mutated.headers, oauthPassthrough, signed: undefined };
  const authorization = action.isEnvelope ? byName(dressed.headers)['authorization'] : arrival.head.headers['authorization'];
  const signed = signedHeaders(authorization, dressed.path);
  if (signed === undefined) return { dressed };
  const call = { ...parts, dressed };
  const change = isSignature(authorization) ? brokenCall(call) : brokenUrl(call);
  const reason = change ?? changedHeader(call, signed, settings);
  if (reason === undefined) return { dressed: { ...dressed, signed } };
  const refusal = deny('signature_would_break', `${reason}, which would break the signature of the caller (AWS Signature Version 4).`);
  return new EndedWith(refusal, { dressed });
}

interface Signed extends Read {
  readonly dressed: Dressed;
}

/** What its caller signed is the request that it sent. */
function brokenCall({ arrival: { head }, action, mutation, mutated, route, dressed }: Signed): string | undefined {
  if (action.isEnvelope && mutated.bytes) return 'The structured API writes the body of a call itself';
  const change = mutationOf(mutation);
  if (action.isEnvelope || change) return change;
  const { host, port, tls } = route;
  const sentHost = hostHeader({ authority: { host, port }, tls });
  if (head.headers['host'] !== sentHost) return `The call goes to the host ${sentHost} and is signed for another one`;
  return dressed.path === pathAsSigned(head.rawTarget) ? undefined : RESPELT;
}

/** A signature in the query was made by somebody else, for the upstream's own URL, whatever way it comes here. */
function brokenUrl({ arrival: { head }, action, facts, mutation, route, dressed }: Signed): string | undefined {
  const change = mutationOf(mutation);
  if (change) return change;
  if (facts.target_host !== route.host) return `Policy moves the call to the host ${route.host}`;
  return action.isEnvelope || head.rawTarget.endsWith(dressed.path) ? undefined : RESPELT;
}

const RESPELT = 'The path is sent in another spelling than it came in';

function mutationOf({ changes }: CallMutation): string | undefined {
  const change = changes.find(({ key }) => !key.startsWith('action.headers.'));
  return change && `Policy changes ${change.key}`;
}

/** A client of a forward proxy sends a whole URL and signs its path. */
function pathAsSigned(rawTarget: string): string {
  const path = rawTarget.startsWith('/') ? rawTarget : rawTarget.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

function changedHeader(
  { arrival, action, route, dressed }: Signed,
  signed: readonly string[],
  settings: PipelineSettings,
): string | undefined {
  const came = valuesByName(action.isEnvelope ? dressed.headers : arrival.head.rawHeaders);
  const sent = valuesByName(outboundHeaders({ arrival, route, headers: dressed.headers, signed }, settings));
  const changed = signed.find((name) => name !== 'host' && name !== FOLLOWS_BODY && came.get(name) !== sent.get(name));
  return changed && `The header ${changed} is not passed on as it came`;
}

/**
 * All values of each header in their order. A caller may name thousands of headers, so each list is gone through once.
 */
function valuesByName(flat: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const name = flat[at]?.toLowerCase() ?? '';
    const value = flat[at + 1] ?? '';
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return values;
}
