import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../../base/catalogue/connector-id.ts';
import type { Route } from '../http/route.ts';

export interface ConnectorRouteOptions {
  readonly catalogues: CurrentCatalogue;
  /** Connector id by `action.type`, as registered on the gateway. */
  readonly actionTypes: ReadonlyMap<string, string>;
  /** True when a usable credential is stored for the connector. */
  readonly hasCredential: (connectorId: string) => boolean;
  /** What went wrong with the last call through the connector; undefined when nothing did. */
  readonly lastError: (connectorId: string) => { readonly at: string; readonly code: string } | undefined;
}

/** Registered connectors (specification, "Connector admin entry"): `status` comes from configuration and the last upstream error, not from a probe. */
export function connectorRoutes(options: ConnectorRouteOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/connectors',
      auth: 'admin',
      summary:
        'Registered connectors with the action types that are mapped to them; `status` is `ok`, `no_credential` (callers must bring their own key) or `error` (the last call failed, `last_error` says how).',
      handle: () => ({ status: 200, json: { connectors: connectorRows(options) } }),
    },
  ];
}

function connectorRows({ catalogues, actionTypes, hasCredential, lastError }: ConnectorRouteOptions): readonly object[] {
  const generic = { id: GENERIC_HTTP, version: GENERIC_HTTP_VERSION, hosts: ['*'], hostPatterns: [], needsCredential: false };
  return [...catalogues.current().providers, generic].map(({ id, version, hosts, hostPatterns, needsCredential }) => {
    const error = lastError(id);
    return {
      connector_id: id,
      provider: id,
      target_host: hosts[0] ?? hostPatterns[0] ?? '',
      version,
      action_types: Array.from(actionTypes, ([type, connector]) => (connector === id ? [type] : [])).flat(),
      status: error ? 'error' : needsCredential && !hasCredential(id) ? 'no_credential' : 'ok',
      ...(error ? { last_error: error } : {}),
    };
  });
}
