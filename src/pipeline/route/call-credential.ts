import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Provider } from '../../base/catalogue/types.ts';
import type { Credential } from '../../base/model/keys.ts';
import type { ProviderSwitches } from '../../base/model/org.ts';
import { type CredentialSelection, chooseCredential } from '../../decide/routing/choose-credential.ts';
import { clientKey, hasAuthorization } from '../../outbound/connectors/auth.ts';
import type { Pipeline, PipelineSettings } from '../parts/call-services.ts';
import type { CallRoute, Claims, ReceivedAction } from '../parts/parts.ts';
import type { Connected } from './call-connector.ts';
import { byName } from './flat-headers.ts';

const NONE: readonly Credential[] = [];

export interface CallCredentialQuestion {
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly call: Connected;
  /** Of the call as it is to be sent. */
  readonly headers: readonly string[];
  /** What policy selected, once it was asked. */
  readonly select: CredentialSelection | undefined;
  /** Whose keys the org takes. */
  readonly switches: ProviderSwitches;
}

/**
 * Settles which credential the call takes (decisions 6.9, 6.10). A call that is left without one is refused when the
 * key would be put in: what policy says of the final choice comes first.
 */
export function chooseFor(
  question: CallCredentialQuestion,
  { credentials, settings }: Pipeline,
): Pick<CallRoute, 'credentialCandidates' | 'credential' | 'credentialId'> {
  const { claims, action, call, headers, select, switches } = question;
  const { connectorId, provider } = call;
  const moved = call.meantFor !== connectorId;
  const candidates = forHost(credentials.usable(claims.orgId, connectorId), call);
  const passthrough = passesOn(connectorId, switches, settings) && hasAuthorization(byName(headers));
  const byok = takesCallersKey(call, switches);
  // What nearly every proxied call is: no key of ours, so whatever its caller sent is the provider's to judge.
  if (!action.isEnvelope && candidates.length === 0 && !select && !moved && !passthrough && byok)
    return { credentialCandidates: candidates, credential: undefined, credentialId: undefined };
  const hint = action.request.credential_hint;
  const credential = chooseCredential({
    isEnvelope: action.isEnvelope,
    connectorId,
    needsCredential: provider?.needsCredential === true && connectorId !== GENERIC_HTTP,
    candidates,
    hint,
    hintIsStored: hint !== undefined && credentials.isStored(claims.orgId, hint),
    select,
    callerKey: carriesKey(claims, call, headers),
    moved,
    passthrough,
    byok,
  });
  const credentialId = credential.kind === 'stored' ? credential.credentialId : undefined;
  return { credentialCandidates: candidates, credential, credentialId };
}

/** By the host: `generic_http` is no other name under which a provider takes a caller's key. */
function takesCallersKey({ connectorId, provider }: Connected, { byokOff }: ProviderSwitches): boolean {
  return byokOff.size === 0 || !(byokOff.has(connectorId) || (provider !== undefined && byokOff.has(provider.id)));
}

/** What the org has said goes before the setting of the gateway. */
function passesOn(connectorId: string, { oauthOn, oauthOff }: ProviderSwitches, { oauthPassthrough }: PipelineSettings): boolean {
  return oauthOn.has(connectorId) || (oauthPassthrough.has(connectorId) && !oauthOff.has(connectorId));
}

/** The provider whose key a caller may bring: that which its own words lead to. */
export function meantProvider({ meantFor }: Pick<CallRoute, 'meantFor'>, { catalogue }: Claims): Provider | undefined {
  return catalogue.provider(meantFor);
}

/**
 * Without `target_hosts` a credential is good for every host of its connector but those that a customer of the provider
 * runs (decision 6.9), and never for a connection on which anyone between could read it. On another port of the host of
 * a custom connector another service may listen.
 */
function forHost(candidates: readonly Credential[], { host, port, tls, provider }: Connected): readonly Credential[] {
  if (!tls || (provider?.custom !== undefined && provider.custom.port !== port)) return NONE;
  const anybodys = provider !== undefined && provider.customerDomains.length > 0 && isCustomers(host, provider);
  const fits = (candidate: Credential) => candidate.target_hosts?.includes(host) ?? !anybodys;
  return candidates.every(fits) ? candidates : candidates.filter(fits);
}

function isCustomers(host: string, { customerDomains }: Provider): boolean {
  return customerDomains.some((domain) => host.endsWith(domain));
}

/**
 * True when the call carries a key, in any place where the provider that it goes to or the one that its caller meant
 * takes one (decision 6.9).
 */
function carriesKey(claims: Claims, call: Connected, flat: readonly string[]): boolean {
  const { provider, path } = call;
  const headers = byName(flat);
  const meant = meantProvider(call, claims);
  return clientKey(provider, headers, path) || (meant !== provider && clientKey(meant, headers, path));
}
