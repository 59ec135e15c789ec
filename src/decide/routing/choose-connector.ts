/*
 * Which connector takes a call, and to which host it then goes. Pure: the catalogue, the request's own words and the
 * effects of policy in, a connector out. Nothing here picks a credential or judges the host.
 */
import { GENERIC_HTTP, registeredConnectorId } from '../../base/catalogue/connector-id.ts';
import type { Catalogue, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/text.ts';

export interface RouteQuestion {
  /** As the caller wrote it. */
  readonly connectorHint?: string | undefined;
  /** The effect of a matching rule; absent when policy has not been asked yet (decision 5.4). */
  readonly selectConnector?: string | undefined;
  /**
   * Absent where the mapping of action types does not count: what a client sends to a provider in that provider's own
   * format stays there.
   */
  readonly actionType?: string | undefined;
  /** Canonical (decision 3.17). */
  readonly targetHost: string;
}

export interface ChosenConnector {
  readonly connectorId: string;
  /**
   * The registry row of the host: what the call means, and what it costs. `generic_http` adds nothing to a call, but
   * takes none of that away either, or a hint could keep a call to a provider out of every budget. Undefined for a host
   * that no row has.
   */
  readonly provider: Provider | undefined;
  /** Where the call goes: the request's host when the connector covers it, else the connector's own (decision 6.9). */
  readonly targetHost: string;
  readonly chosenBy: 'hint' | 'policy' | 'action_type' | 'target_host' | 'fallback';
}

/**
 * `action.type` → canonical connector id, registered on the gateway (specification, "Connector routing precedence" 2).
 */
export type ActionTypeMap = ReadonlyMap<string, string>;

const NO_ACTION_TYPES: ActionTypeMap = new Map();

/**
 * Routes by the specified precedence: a hint overrides all, then `select_connector`, the mapping of the action type
 * (whatever the host), the provider of the target host, `generic_http`.
 * @throws GatewayError `invalid_request` for a hint that names no connector (decision 5.4), or a connector of
 * per-customer hosts whose host is not given; a name from policy or from the map that nobody has is a fault of ours,
 * `internal`, since both are checked when they are loaded
 */
export function chooseConnector(
  catalogue: Catalogue,
  question: RouteQuestion,
  actionTypes: ActionTypeMap = NO_ACTION_TYPES,
): ChosenConnector {
  const { connectorHint, selectConnector, targetHost } = question;
  if (connectorHint !== undefined) {
    const id = registeredConnectorId(catalogue, connectorHint);
    if (id === undefined) throw unknownHint(connectorHint);
    return named(catalogue, id, targetHost, 'hint');
  }
  if (selectConnector !== undefined) return named(catalogue, registered(catalogue, selectConnector), targetHost, 'policy');
  const mapped = question.actionType === undefined ? undefined : actionTypes.get(question.actionType);
  if (mapped !== undefined) return named(catalogue, mapped, targetHost, 'action_type');
  return automatic(catalogue, targetHost);
}

/**
 * The connectors that could take the call, for `context.candidates.connectors`: those that cover the host, and
 * `generic_http`. A hint that covers another host is added by its caller's choice.
 */
export function candidateConnectors(catalogue: Catalogue, chosen: ChosenConnector): readonly string[] {
  const ids = [chosen.connectorId];
  const own = catalogue.providerForHost(chosen.targetHost)?.id;
  for (const id of [own, GENERIC_HTTP]) if (id !== undefined && !ids.includes(id)) ids.push(id);
  return ids;
}

function automatic(catalogue: Catalogue, targetHost: string): ChosenConnector {
  const provider = catalogue.providerForHost(targetHost);
  if (provider === undefined) return { connectorId: GENERIC_HTTP, provider: undefined, targetHost, chosenBy: 'fallback' };
  return { connectorId: provider.id, provider, targetHost, chosenBy: 'target_host' };
}

function named(catalogue: Catalogue, id: string, targetHost: string, chosenBy: ChosenConnector['chosenBy']): ChosenConnector {
  if (id === GENERIC_HTTP) return { connectorId: id, provider: catalogue.providerForHost(targetHost), targetHost, chosenBy };
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

function registered(catalogue: Catalogue, name: string): string {
  const id = registeredConnectorId(catalogue, name);
  if (id === undefined) throw new GatewayError('internal', `policy names a connector that does not exist: ${name}`);
  return id;
}

function unknownHint(hint: string): GatewayError {
  return new GatewayError('invalid_request', 'connector_hint names no registered connector', {
    details: [{ path: 'connector_hint', message: `"${shorten(hint)}" is not a registered connector id` }],
  });
}
