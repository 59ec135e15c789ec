import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../../base/catalogue/connector-id.ts';
import type { Listeners } from '../../base/events/bus.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';

/** What went wrong with the last call through a connector. */
export interface ConnectorError {
  /** RFC 3339. */
  readonly at: string;
  /** An error code `upstream_…`, or `status_` and the status that the upstream answered. */
  readonly code: string;
}

/**
 * Remembers how the last call through each connector ended (specification, "Connector admin entry": not a live probe).
 * A call that the upstream answered as it should takes the error away.
 */
export class ConnectorHealth {
  readonly #catalogues: CurrentCatalogue;
  readonly #ownOrg: string;
  readonly #errors = new Map<string, ConnectorError>();

  /** @param ownOrg of the gateway: connectors that other orgs have made are not for health, which everybody may read */
  constructor(catalogues: CurrentCatalogue, ownOrg: string) {
    this.#catalogues = catalogues;
    this.#ownOrg = ownOrg;
  }

  /** What this wants to hear. */
  readonly events: Listeners = {
    execution: ({ record }) => {
      if (record.connector_id === undefined) return;
      const code = errorOf(record);
      if (code !== undefined) this.#errors.set(record.connector_id, { at: record.completed_at, code });
      else if (record.upstream_status !== undefined) this.#errors.delete(record.connector_id);
    },
  };

  /** Undefined when the last call did not fail, and before the first. */
  lastError(connectorId: string): ConnectorError | undefined {
    return this.#errors.get(connectorId);
  }

  list(): readonly { readonly id: string; readonly version: string; readonly healthy: boolean }[] {
    const all = [...this.#catalogues.current().forOrg(this.#ownOrg).providers, { id: GENERIC_HTTP, version: GENERIC_HTTP_VERSION }];
    return all.map(({ id, version }) => ({ id, version, healthy: !this.#errors.has(id) }));
  }
}

/** What a caller did wrong, or its own key, says nothing about the connector; a stored key that is refused does. */
function errorOf({ error, upstream_status: status, credential_id: credentialId }: ExecutionRecord): string | undefined {
  if (error?.code.startsWith('upstream_') === true) return error.code;
  if (status === undefined) return undefined;
  return status >= 500 || (status === 401 && credentialId !== undefined) ? `status_${status}` : undefined;
}
