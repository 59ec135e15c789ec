import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import type { Route } from '../http/route.ts';

export interface ConnectorRouteOptions {
  readonly catalogue: Catalogue;
  /** True when a usable credential is stored for the connector. */
  readonly hasCredential: (connectorId: string) => boolean;
  /** True when the last call through the connector failed. */
  readonly failing: (connectorId: string) => boolean;
}

/** Registered connectors (specification, "Connector admin entry"): `status` comes from configuration and the last upstream error, not from a probe. */
export function connectorRoutes(options: ConnectorRouteOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/connectors',
      auth: 'admin',
      summary:
        'Registered connectors; `status` is `ok`, `no_credential` (callers must bring their own key) or `error` (the last call failed).',
      handle: () => {
        const { catalogue, hasCredential, failing } = options;
        const rows = catalogue.providers.map(({ id, version, hosts, hostPatterns, needsCredential }) => ({
          connector_id: id,
          provider: id,
          target_host: hosts[0] ?? hostPatterns[0] ?? '',
          version,
          status: failing(id) ? 'error' : needsCredential && !hasCredential(id) ? 'no_credential' : 'ok',
        }));
        const generic = {
          connector_id: GENERIC_HTTP,
          provider: GENERIC_HTTP,
          target_host: '*',
          status: failing(GENERIC_HTTP) ? 'error' : 'ok',
        };
        return { status: 200, json: { connectors: [...rows, generic] } };
      },
    },
  ];
}
