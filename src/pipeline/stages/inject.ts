import { GatewayError } from '../../base/lib/gateway-error.ts';
import { injectAuth, injectedQuery, withoutAuth, withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import type { Dressed, Parts } from '../parts/parts.ts';
import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { meantProvider } from '../route/call-credential.ts';

/** Puts the key into the call, at the very end, when the host that it goes to is settled; every auth header that was there goes (decision 8.4). */
export const inject = defineStage({
  name: 'inject',
  reads: ['arrival', 'claims', 'action', 'route', 'mutated'],
  makes: ['dressed'],
  run({ arrival, claims, action, route, mutated }, { credentials, log }) {
    const { credential, path } = route;
    const asItIs: Dressed = { path, query: undefined, headers: mutated.headers, oauthPassthrough: false };
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
        return { dressed: { ...asItIs, oauthPassthrough: credential.passthrough } };
      default:
        return { dressed: asItIs };
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
  };
}
