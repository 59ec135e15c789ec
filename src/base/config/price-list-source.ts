import { resolve } from 'node:path';
import { bracketHost } from '../lib/host.ts';
import { readWebAddress, type WebAddress } from '../lib/web-address.ts';
import type { SettingType } from './setting-types.ts';
import * as type from './setting-types.ts';
import { optional, required } from './setting-types.ts';

/**
 * Where the price list comes from (decision 6.16). `name` is how people are told of it: of an address without its
 * query, which may hold a key.
 */
export type PriceListSource =
  | { readonly kind: 'shipped'; readonly name: 'shipped' }
  | { readonly kind: 'file'; readonly name: string; readonly path: string }
  | { readonly kind: 'address'; readonly name: string; readonly address: WebAddress };

export const SHIPPED_LIST: PriceListSource = { kind: 'shipped', name: 'shipped' };

const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;

/**
 * `shipped`, an https URL or the path of a file. A word alone is no path: it is `shipped`, spelt wrongly.
 * @returns the source, or what is wrong with the text, as the rest of a sentence
 */
export function readPriceListSource(text: string): PriceListSource | string {
  if (text === SHIPPED_LIST.name) return SHIPPED_LIST;
  if (SCHEME.test(text)) {
    const address = readWebAddress(text, () => false);
    return typeof address === 'string' ? address.replace(/;.*/, '') : addressSource(address);
  }
  if (!/[./\\]/.test(text) || text.includes('\0')) return 'a file is named with its folder, as ./prices.json';
  return { kind: 'file', name: resolve(text), path: resolve(text) };
}

function addressSource(address: WebAddress): PriceListSource {
  const { host, port } = address.authority;
  const place = port === 443 ? bracketHost(host) : `${bracketHost(host)}:${port}`;
  return { kind: 'address', name: `https://${place}${address.path.split('?', 1)[0] ?? ''}`, address };
}

const priceListSource: SettingType<PriceListSource> = {
  name: 'price list',
  allowed: '`shipped`, the path of a file such as `./prices.json`, or an `https` URL without user and password',
  parse(text) {
    const source = readPriceListSource(text);
    if (typeof source === 'string') throw new RangeError(source);
    return source;
  },
};

/** Settings of what calls are charged (decisions 6.3, 6.16); rows of the one table. */
export const PRICE_SETTINGS = {
  pricingFile: optional(
    'GW_PRICING_FILE',
    type.file,
    'YAML file of rates that are laid over the shipped price list, those of caches and sound included; one that does not load stops the start.',
  ),
  pricingCached: required(
    'GW_PRICING_CACHED',
    type.boolean,
    'true',
    'Charges tokens that the price list has rates for (read from a cache, written to one, sound, pictures, …) at these, and what is billed beside tokens; `false` is the formula of the interface to the letter: one rate for input, one for output.',
  ),
  priceList: required(
    'GW_PRICE_LIST',
    priceListSource,
    'shipped',
    'Where the price list comes from: that of the package, a file (read at start and when it changes), or an address (asked at start and every `GW_PRICE_LIST_REFRESH`).',
  ),
  priceListRefresh: required(
    'GW_PRICE_LIST_REFRESH',
    type.duration('5m'),
    '24h',
    'How often the address of `GW_PRICE_LIST` is asked for a newer list.',
  ),
} as const;
