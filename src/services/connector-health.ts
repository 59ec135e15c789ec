import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../base/catalogue/connector-id.ts';
import type { Catalogue } from '../base/catalogue/types.ts';
import type { GatewayEvents } from '../base/events/execution-event.ts';

/** Remembers how the last call through each connector ended (specification, "Connector admin entry": not a live probe). */
export class ConnectorHealth {
  readonly #catalogue: Catalogue;
  readonly #failing = new Set<string>();

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue;
  }

  /** Feeds this from the recorded requests. */
  readonly events: Partial<GatewayEvents> = {
    execution: ({ record }) => {
      if (record.connector_id === undefined) return;
      if (record.decision === 'error') this.#failing.add(record.connector_id);
      else if (record.upstream_status !== undefined) this.#failing.delete(record.connector_id);
    },
  };

  failing(connectorId: string): boolean {
    return this.#failing.has(connectorId);
  }

  list(): readonly { readonly id: string; readonly version: string; readonly healthy: boolean }[] {
    const all = [...this.#catalogue.providers, { id: GENERIC_HTTP, version: GENERIC_HTTP_VERSION }];
    return all.map(({ id, version }) => ({ id, version, healthy: !this.#failing.has(id) }));
  }
}
