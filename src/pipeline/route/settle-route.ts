import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { usualOrigin } from '../../base/catalogue/custom-row.ts';
import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import type { Provider } from '../../base/catalogue/types.ts';
import type { Credential } from '../../base/model/keys.ts';
import type { ProviderSwitches } from '../../base/model/org.ts';
import { type ChosenConnector, candidateConnectors, chooseConnector, type RouteQuestion } from '../../decide/routing/choose-connector.ts';
import { type CredentialSelection, chooseCredential } from '../../decide/routing/choose-credential.ts';
import { directPath } from '../../inbound/normalise/direct-call.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { clientKey, hasAuthorization } from '../../outbound/connectors/auth.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import type { Pipeline, PipelineSettings } from '../parts/call-services.ts';
import type { Arrived, CallRoute, Claims, Content, ReceivedAction, Target, WireCall } from '../parts/parts.ts';
import { byName } from './outbound-headers.ts';
import { worthOf } from './worth.ts';

export interface RoutedCall {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly target: Target;
  readonly action: ReceivedAction;
  readonly call: Connected;
  readonly content: Content;
  /** The credential that policy selected, once it was asked. */
  readonly select: CredentialSelection | undefined;
  /** What the request is judged by. */
  readonly active: ActivePolicy;
}

/**
 * All that follows from the connector of a call: credential, price and estimate. Asked when the connector is known, and
 * again when policy has changed what these depend on (decision 5.4).
 */
export function settleRoute({ arrival, claims, target, action, call, content, select, active }: RoutedCall, pipeline: Pipeline): CallRoute {
  const { credentialCandidates, credential, credentialId } = chooseFor(
    { claims, action, call, headers: content.headers, select, switches: active.switches },
    pipeline,
  );
  const { price, estimate, named } = worthOf(
    { arrival, claims, action, call, content, opensSocket: target.opensSocket },
    pipeline.settings,
  );
  return {
    method: call.method,
    host: call.host,
    port: call.port,
    tls: call.tls,
    path: call.path,
    provider: call.provider,
    operation: call.operation,
    actionType: call.actionType,
    stream: call.stream,
    model: call.model,
    connectorId: call.connectorId,
    candidates: call.candidates,
    meantFor: call.meantFor,
    credentialCandidates,
    credential,
    credentialId,
    price,
    estimate,
    named,
  };
}

const HTTPS_PORT = 443;

/** A call with its connector. */
export type Connected = WireCall & Pick<CallRoute, 'connectorId' | 'candidates' | 'meantFor'>;

export interface ConnectorQuestion {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly call: WireCall;
  /** What chooses beside the host; what was mutated goes by its host alone. */
  readonly by: Omit<RouteQuestion, 'targetHost'>;
  /** The connector that the call was meant for, when that is settled. */
  readonly meantFor: string | undefined;
}

/**
 * Routes by the specified precedence and settles what follows from the connector: host (decision 6.9), path, operation,
 * action type.
 * @throws GatewayError `invalid_request` as {@link chooseConnector}
 */
export function connect({ arrival, claims, action, call, by, meantFor }: ConnectorQuestion, settings: PipelineSettings): Connected {
  const { catalogue } = claims;
  const found = chooseConnector(catalogue, { ...by, targetHost: call.host }, settings.actionTypes);
  const chosen = call.operation?.rest === true && found.chosenBy === 'target_host' ? asOtherHost(found) : found;
  const moves = chosen.targetHost !== call.host;
  const { provider } = chosen;
  const origin = moves || takesPort({ action, call }, chosen) ? usualOrigin(provider) : call;
  const path = action.isEnvelope ? envelopePath(action, call, chosen) : call.path;
  const isSame = call.provider === provider && call.operation !== undefined;
  const operation = isSame ? call.operation : provider ? catalogue.operation(provider, call.method, pathOnly(path)) : HTTP_REQUEST;
  // Member by member, as everywhere on the path of a call: to spread an object of this size costs microseconds.
  return {
    method: call.method,
    host: chosen.targetHost,
    port: origin.port,
    tls: origin.tls,
    path,
    provider,
    operation,
    actionType: arrival.line === 'proxied' ? (operation?.actionType ?? 'http.request') : call.actionType,
    stream: call.stream,
    model: call.model,
    connectorId: chosen.connectorId,
    candidates: candidateConnectors(catalogue, chosen),
    // An operator's mapping is nothing that a caller knows of: what it brings is meant for the host that it names.
    meantFor:
      meantFor ??
      (moves && chosen.chosenBy === 'action_type' ? chooseConnector(catalogue, { targetHost: call.host }).connectorId : chosen.connectorId),
  };
}

/** Of a structured call that names no path it is the usual one of its connector. */
function envelopePath({ request }: ReceivedAction, { path }: WireCall, { connectorId, provider }: ChosenConnector): string {
  return path === '' ? directPath(request.action, connectorId === GENERIC_HTTP ? undefined : provider) : path;
}

/** The rest of a shared host goes as what is sent to any host that no connector has (decision 3.8). */
function asOtherHost(chosen: ChosenConnector): ChosenConnector {
  return { ...chosen, connectorId: GENERIC_HTTP, provider: undefined, chosenBy: 'fallback' };
}

/** A structured call names a host; which port that has is what a custom connector says. */
function takesPort({ action, call }: Pick<ConnectorQuestion, 'action' | 'call'>, { connectorId, provider }: ChosenConnector): boolean {
  return action.isEnvelope && call.port === HTTPS_PORT && provider?.custom !== undefined && connectorId === provider.id;
}

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
