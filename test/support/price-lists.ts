import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../src/base/catalogue/catalogue-in-force.ts';
import { readPriceListSource } from '../../src/base/config/price-list-source.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { GivenList } from '../../src/services/prices/list-sources.ts';
import { type ListChange, PriceLists } from '../../src/services/prices/price-lists.ts';
import { commitAlone } from '../../src/services/registers/commit.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { heardLog } from './heard-log.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export type Prices = Readonly<Record<string, unknown>>;

/** The published form of a list of one provider. @param models prices by name; each name is matched as it is */
export function listOf(models: Readonly<Record<string, Prices | readonly unknown[]>>, id = 'openai'): string {
  const rows = Object.entries(models).map(([name, prices]) => ({ id: name, match: { equals: name }, prices }));
  return JSON.stringify([{ id, name: id, api_pattern: 'https://api\\.openai\\.com', models: rows }]);
}

/** The list that is shipped in these tests: of 2026-09-23, with a model `m` that costs 2 and 8. */
export const SHIPPED_TEXT = shippedList(listOf({ m: { input_mtok: 2, output_mtok: 8 } }));

/** A list as it is shipped. */
export function shippedList(text: string, date = '2026-09-23'): string {
  return JSON.stringify({ schema: 'gw.price_list.v1', version: '0.1.8', date, providers: JSON.parse(text) as unknown });
}

export function given(text: string, more: Partial<GivenList> = {}): GivenList {
  return { text, kind: 'given', name: 'new.json', day: '2026-11-21', ...more };
}

export interface ListPlace {
  readonly store: Store;
  readonly clock: FakeClock;
  readonly catalogues: CatalogueInForce;
  readonly lists: PriceLists;
  readonly change: ListChange;
  readonly lines: readonly string[];
  /** `in / out` of a model at OpenAI, now. */
  cost(model?: string): string;
}

/** A store in a folder, closed at the end of the test. */
export async function openListStore(t: HasTeardown, dir = tempDir(t), clock = fakeClock()): Promise<Store> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

/** The price lists of one node on a store. @param setting `GW_PRICE_LIST` */
export async function openLists(
  store: Store,
  { clock = fakeClock(), shipped = SHIPPED_TEXT, setting = 'shipped' }: { clock?: FakeClock; shipped?: string; setting?: string } = {},
): Promise<ListPlace> {
  const catalogues = new CatalogueInForce(loadCatalogue({ sources: { priceList: shipped, priceCorrections: NO_CORRECTIONS } }));
  const { log, lines } = heardLog();
  const source = readPriceListSource(setting);
  if (typeof source === 'string') throw new Error(source);
  const lists = await PriceLists.open({ store, clock, log, catalogues, source });
  const change = { by: 'admin', commit: commitAlone(store) };
  const cost = (model = 'm'): string => {
    const price = catalogues.current().price('openai', model, clock.now());
    return `${price.in} / ${price.out}`;
  };
  return { store, clock, catalogues, lists, change, lines, cost };
}

/** The table without a row. */
const NO_CORRECTIONS = 'provider,model,in,out,cached_in,cache_write,audio_in,source,source_date,valid_from,reason\n';
