import { asStars, isSuffixPattern } from '../base/catalogue/host-globs.ts';
import type { Provider } from '../base/catalogue/types.ts';

export interface PacInput {
  /** Whether the proxy is reached by TLS. */
  readonly secure: boolean;
  /** Host and port at which the client reached us, which is where it can reach the proxy. */
  readonly proxy: string;
  readonly all: boolean;
  readonly providers: readonly Provider[];
  readonly domains: readonly { readonly domain: string; readonly match: string }[];
}

/**
 * A proxy auto-configuration script (decision 3.4). Exact hosts are one look-up, suffixes walk the labels of the host.
 */
export function pacFile(input: PacInput): string {
  const proxy = proxyOf(input);
  if (input.all) return `function FindProxyForURL(url, host) {\n  return "${proxy}";\n}\n`;
  const { exact, suffixes, globs } = namesOf(input);
  const table = (names: Set<string>) => JSON.stringify(Object.fromEntries([...names].sort().map((name) => [name, 1])));
  return `var exact = ${table(exact)};
var suffixes = ${table(suffixes)};
var globs = ${JSON.stringify([...globs])};
function FindProxyForURL(url, host) {
  host = host.toLowerCase().replace(/\\.$/, "");
  if (exact.hasOwnProperty(host)) return "${proxy}";
  for (var at = 0; at < globs.length; at++) if (shExpMatch(host, globs[at])) return "${proxy}";
  for (var rest = host; ; rest = rest.slice(rest.indexOf(".") + 1)) {
    if (suffixes.hasOwnProperty(rest)) return "${proxy}";
    if (rest.indexOf(".") < 0) return "DIRECT";
  }
}
`;
}

/** What the script looks up, by how it is looked up. */
function namesOf({ providers, domains }: PacInput): Readonly<Record<'exact' | 'suffixes' | 'globs', Set<string>>> {
  const names = { exact: new Set<string>(), suffixes: new Set<string>(), globs: new Set<string>() };
  for (const { hosts, hostPatterns } of providers) {
    for (const host of hosts) names.exact.add(host);
    for (const pattern of hostPatterns) {
      if (isSuffixPattern(pattern)) names.suffixes.add(pattern.slice(2));
      else names.globs.add(asStars(pattern));
    }
  }
  for (const { domain, match } of domains) {
    if (match === 'exact') names.exact.add(domain);
    else if (match === 'suffix') names.suffixes.add(domain);
    else names.globs.add(domain);
  }
  return names;
}

/** As the script names a proxy. A Host that is no host and port would be code in it. */
function proxyOf({ proxy, secure }: PacInput): string {
  const address = /^[A-Za-z0-9.:[\]-]+$/.test(proxy) ? proxy : '127.0.0.1:7080';
  return `${secure ? 'HTTPS' : 'PROXY'} ${address}`;
}
