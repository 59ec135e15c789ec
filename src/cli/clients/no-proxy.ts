/*
 * What stands in NO_PROXY and no_proxy: programs read one of the two, each another one first, so that what is in one of
 * them must be in both.
 */

/** What of this machine goes past a proxy. */
export const NO_PROXY = 'localhost,127.0.0.1,::1';

/** Takes everything past the gateway, so that it is not kept. */
const ALL = '*';
const OURS = NO_PROXY.split(',');

/**
 * The value for one spelling: its own entries, ours, and then those of the other spelling.
 * @param other what the other spelling is set to; '' where that is unset
 */
export function mergedNoProxy(value: string, other: string): string {
  const own = entriesOf(noProxyBefore(value, other));
  return [...new Set([...own, ...OURS, ...entriesOf(noProxyBefore(other, value))])].filter((entry) => entry !== ALL).join(',');
}

/**
 * What was there before {@link mergedNoProxy}; `value` itself where nothing of that is to be seen.
 * @param other what the other spelling is set to now
 */
export function noProxyBefore(value: string, other: string): string {
  const { before, after } = around(value);
  if (before === undefined) return value;
  const lent = entriesOf(around(other).before ?? '');
  return entriesOf(after).every((entry) => lent.includes(entry)) ? before : value;
}

/** Hosts that every shell with a gateway is about. */
const AI_HOSTS = ['api.openai.com', 'api.anthropic.com', 'generativelanguage.googleapis.com'];

/**
 * What is wrong with entries that take calls to an AI provider past the gateway, of which it then knows nothing: for a
 * person, undefined when there is none. Programs differ in what they take for a pattern, so that `*.example` is judged
 * as the widest of them reads it.
 */
export function entryPastGateway(entries: readonly string[]): string | undefined {
  for (const entry of entries) {
    const name = entry.replace(/^\*?\./, '').toLowerCase();
    const host = AI_HOSTS.find((one) => entry === ALL || `.${one}`.endsWith(`.${name}`));
    if (host !== undefined) return `NO_PROXY has "${entry}": calls to ${host} pass the gateway by`;
  }
  return undefined;
}

/** What stands before and behind our entries where they were put last. */
function around(value: string): { readonly before: string | undefined; readonly after: string } {
  const padded = `,${value},`;
  const at = padded.lastIndexOf(`,${NO_PROXY},`);
  if (at === -1) return { before: undefined, after: '' };
  return { before: padded.slice(1, Math.max(1, at)), after: padded.slice(at + NO_PROXY.length + 2, -1) };
}

/** Parted by commas, blanks around them or not. */
export function entriesOf(value: string): readonly string[] {
  return value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}
