import type { Config } from '../base/config/config.ts';
import type { AuditTrail } from '../services/orgs/audit-trail.ts';
import { ListSources } from '../services/prices/list-sources.ts';
import { PriceListRefresh } from '../services/prices/price-list-refresh.ts';
import { PriceLists } from '../services/prices/price-lists.ts';
import { UnpricedModels } from '../services/prices/unpriced-models.ts';
import type { Ground } from './ground.ts';

/** The price list in force, and how it is renewed. */
export interface Prices {
  readonly lists: PriceLists;
  readonly refresh: PriceListRefresh;
  readonly unpriced: UnpricedModels;
}

/**
 * Opens them: the list that was taken last is in force then. Its source is asked when the rest is there
 * (`refresh.start`).
 */
export async function openPrices(
  config: Config,
  ground: Ground,
  audit: AuditTrail,
  closers: (() => Promise<void>)[],
  knownOrg: (orgId: string) => boolean,
): Promise<Prices> {
  const { store, clock, log, events, catalogues, waysOut } = ground;
  const source = config.priceList;
  const lists = await PriceLists.open({ store, clock, log, catalogues, source });
  // What the setting says nobody asks for: the gateway itself changes it.
  const asking = { principal: { kind: 'node', id: config.nodeId }, operation: 'prices.update', from: '127.0.0.1' } as const;
  const change = { by: config.nodeId, commit: audit.commitFor(asking) };
  const sources = new ListSources({ door: waysOut.door, clock });
  const refresh = new PriceListRefresh({ lists, sources, clock, log, source, everyMs: config.priceListRefresh, change });
  const unpriced = new UnpricedModels({ clock, events, knownOrg });
  closers.push(async () => {
    unpriced.close();
    await refresh.close();
  });
  return { lists, refresh, unpriced };
}
