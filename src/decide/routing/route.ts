/*
 * Which connector takes a call, and to which host it then goes. Pure: the catalogue, the request's own words and the effects of policy in, a connector
 * out. Nothing here picks a credential or judges the host.
 */
import { canonicalConnectorId, GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Catalogue, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';

export interface RouteQuestion {
  /** As the caller wrote it. */
  readonly connectorHint?: string | undefined;
  /** The effect of a matching rule; absent when policy has not been asked yet (decision 5.4). */
  readonly selectConnector?: string | undefined;
  readonly actionType: string;
  /** Canonical (decision 3.17). */
  readonly targetHost: string;
}

export interface Route {
  readonly connectorId: string;
  /** The registry row; undefined for `generic_http`. */
  readonly provider: Provider | undefined;
  /** Where the call goes: the request's host when the connector covers it, else the connector's own (decision 6.9). */
  readonly targetHost: string;
  readonly chosenBy: 'hint' | 'policy' | 'action_type' | 'target_host' | 'fallback';
}

/** `action.type` → connector id, registered on the gateway (specification, "Connector routing precedence" 2). */
export type ActionTypeMap = ReadonlyMap<string, string>;

const NO_ACTION_TYPES: ActionTypeMap = new Map();

/**
 * Routes by the specified precedence: a hint overrides all, then `select_connector`, the mapping of the action type (whatever the host), the provider of the
 * target host, `generic_http`.
 * @throws GatewayError `invalid_request` for a hint that names no connector (decision 5.4), or a connector of per-customer hosts whose host is not given;
 * a name from policy or from the map that nobody has is a fault of ours, `internal`, since both are checked when they are loaded
 */
export function route(catalogue: Catalogue, question: RouteQuestion, actionTypes: ActionTypeMap = NO_ACTION_TYPES): Route {
  const { connectorHint, selectConnector, targetHost } = question;
  if (connectorHint !== undefined) {
    const id = canonicalConnectorId(catalogue, connectorHint);
    if (id === undefined || !isBuiltIn(catalogue, id)) throw unknownHint(connectorHint);
    return named(catalogue, id, targetHost, 'hint');
  }
  if (selectConnector !== undefined) return named(catalogue, builtIn(catalogue, selectConnector), targetHost, 'policy');
  const mapped = actionTypes.get(question.actionType);
  if (mapped !== undefined) return named(catalogue, builtIn(catalogue, mapped), targetHost, 'action_type');
  return automatic(catalogue, targetHost);
}

/**
 * The connectors that could take the call, for `context.candidates.connectors`: those that cover the host, and `generic_http`. A hint that covers another
 * host is added by its caller's choice.
 */
export function candidateConnectors(catalogue: Catalogue, chosen: Route): readonly string[] {
  const own = catalogue.providerForHost(chosen.targetHost)?.id;
  return [...new Set([chosen.connectorId, ...(own === undefined ? [] : [own]), GENERIC_HTTP])];
}

function automatic(catalogue: Catalogue, targetHost: string): Route {
  const provider = catalogue.providerForHost(targetHost);
  if (provider === undefined) return { connectorId: GENERIC_HTTP, provider: undefined, targetHost, chosenBy: 'fallback' };
  return { connectorId: provider.id, provider, targetHost, chosenBy: 'target_host' };
}

function named(catalogue: Catalogue, id: string, targetHost: string, chosenBy: Route['chosenBy']): Route {
  if (id === GENERIC_HTTP) return { connectorId: id, provider: undefined, targetHost, chosenBy };
  const provider = catalogue.provider(id);
  if (provider === undefined) throw new GatewayError('internal', `no connector ${id}`);
  const covered = catalogue.providerForHost(targetHost)?.id === provider.id;
  const host = covered ? targetHost : provider.hosts[0];
  if (host === undefined) {
    throw new GatewayError('invalid_request', `connector ${id} needs a target_host that matches ${provider.hostPatterns.join(' or ')}`, {
      details: [{ path: 'action.target_host', message: `is no host of connector ${id}` }],
    });
  }
  return { connectorId: id, provider, targetHost: host, chosenBy };
}

function builtIn(catalogue: Catalogue, name: string): string {
  const id = canonicalConnectorId(catalogue, name);
  if (id === undefined) throw new GatewayError('internal', `policy or configuration names a connector that does not exist: ${name}`);
  return id;
}

function isBuiltIn(catalogue: Catalogue, id: string): boolean {
  return id === GENERIC_HTTP || catalogue.provider(id) !== undefined;
}

function unknownHint(hint: string): GatewayError {
  return new GatewayError('invalid_request', 'connector_hint names no registered connector', {
    details: [{ path: 'connector_hint', message: `"${hint.slice(0, 64)}" is not a registered connector id` }],
  });
}
