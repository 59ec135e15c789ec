import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Credential } from '../../base/model/credential.ts';
import { chooseCredential } from '../../decide/routing/choose-credential.ts';
import { clientKey, hasAuthorization, injectAuth, withoutAuth, withoutAuthQuery } from '../../outbound/connectors/auth.ts';
import type { Exchange } from '../exchange.ts';
import { byName } from '../flat-headers.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

const NONE: readonly Credential[] = [];

/**
 * Settles which credential the call takes, with what policy selected once it was asked (decisions 6.9, 6.10).
 * A call that is left without one is refused when the key would be put in: what policy says of the final choice comes first.
 */
export function takeCredential(exchange: Exchange, pipeline: Pipeline): void {
  const { provider, request } = exchange;
  const { credentials, settings } = pipeline;
  const connectorId = exchange.connectorId ?? '';
  const select = exchange.verdict?.effects.select_credential;
  const moved = exchange.meantFor !== connectorId;
  const candidates = forHost(credentials.usable(exchange.orgId, connectorId), exchange);
  const passthrough = settings.oauthPassthrough.has(connectorId) && hasAuthorization(byName(exchange.headers));
  exchange.credentialCandidates = candidates;
  exchange.credentialId = undefined;
  exchange.credential = undefined;
  // What nearly every proxied call is: no key of ours, so whatever its caller sent is the provider's to judge.
  if (!request && candidates.length === 0 && !select && !moved && !passthrough) return;
  const hint = request?.credential_hint;
  const answer = chooseCredential({
    door: request ? 'direct' : 'proxied',
    connectorId,
    needsCredential: provider?.needsCredential === true && connectorId !== GENERIC_HTTP,
    candidates,
    hint,
    hintIsStored: hint !== undefined && credentials.isStored(exchange.orgId, hint),
    select,
    callerKey: carriesKey(exchange, pipeline),
    moved,
    passthrough,
  });
  exchange.credential = answer;
  if (answer.kind === 'stored') exchange.credentialId = answer.credentialId;
}

/** Without `target_hosts` a credential is good for every host of its connector, but never for a connection on which anyone between could read it. */
function forHost(candidates: readonly Credential[], { host, tls }: Exchange): readonly Credential[] {
  if (!tls) return NONE;
  const fits = (candidate: Credential) => candidate.target_hosts === undefined || candidate.target_hosts.includes(host);
  return candidates.every(fits) ? candidates : candidates.filter(fits);
}

/** True when the call carries a key, in any place where the provider that it goes to or the one that its caller meant takes one (decision 6.9). */
function carriesKey(exchange: Exchange, pipeline: Pipeline): boolean {
  const { provider, path } = exchange;
  const headers = byName(exchange.headers);
  const meant = meantProvider(exchange, pipeline);
  return clientKey(provider, headers, path) || (meant !== provider && clientKey(meant, headers, path));
}

function meantProvider({ meantFor }: Exchange, { catalogue }: Pipeline): Provider | undefined {
  return meantFor === undefined ? undefined : catalogue.provider(meantFor);
}

/** Puts the key into the call, at the very end, when the host that it goes to is settled; every auth header that was there goes (decision 8.4). */
export const inject: Stage = {
  name: 'inject',
  run(exchange, pipeline) {
    const answer = exchange.credential;
    switch (answer?.kind) {
      case 'stored': {
        const secret = pipeline.credentials.secretOf(answer.credentialId);
        if (secret === undefined) return deny('no_credential_candidate', 'The credential of this call has just been removed.');
        replaceKey(exchange, pipeline, secret);
        return undefined;
      }
      case 'hint':
        replaceKey(exchange, pipeline, exchange.request?.credential_hint ?? '');
        return undefined;
      case 'refused':
        return deny(answer.code, answer.reason);
      case 'caller':
        if (answer.passthrough) notePassthrough(exchange, pipeline);
        return undefined;
      default:
        return undefined;
    }
  },
};

function replaceKey(exchange: Exchange, pipeline: Pipeline, key: string): void {
  const { provider } = exchange;
  if (!provider) {
    const details = [{ path: 'credential_hint', message: 'has no place at a generic host; give the key in action.headers' }];
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details });
  }
  const meant = meantProvider(exchange, pipeline);
  exchange.path = withoutAuthQuery(meant, withoutAuthQuery(provider, exchange.path));
  const came = meant === provider ? exchange.headers : withoutAuth(meant, exchange.headers);
  exchange.headers = [...withoutAuth(provider, came), ...injectAuth(provider, key, exchange.operation?.dialect)];
}

/** What the toggle lets through is always told, unlike elsewhere: in the log and in the record. */
function notePassthrough(exchange: Exchange, { log }: Pipeline): void {
  exchange.oauthPassthrough = true;
  log.info({ record_id: exchange.recordId, connector_id: exchange.connectorId }, "the caller's own Authorization is passed through");
}
