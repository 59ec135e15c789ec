import { resolve } from 'node:path';
import { bracketHost } from '../lib/host.ts';
import { readWebAddress, type WebAddress } from '../lib/web-address.ts';
import type { SettingType } from './setting-types.ts';

/** Where the price list comes from (decision 6.16). `name` is how people are told of it: of an address without its query, which may hold a key. */
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

export const priceListSource: SettingType<PriceListSource> = {
  name: 'price list',
  allowed: '`shipped`, the path of a file such as `./prices.json`, or an `https` URL without user and password',
  parse(text) {
    const source = readPriceListSource(text);
    if (typeof source === 'string') throw new RangeError(source);
    return source;
  },
};
