import { signal } from '@preact/signals';

/** Where everything of this gateway is: the folder above `console/`, which may lie below a path of a proxy. */
export const ROOT: URL = new URL('../', location.href);

/** What is shown is in the address: a page and what narrows it. */
export interface PagePlace {
  /** The segment behind `console/`; empty: the first page. */
  readonly page: string;
  readonly query: URLSearchParams;
}

export const place = signal<PagePlace>(placeOf(location));

/** What holds of every page: whose org is looked at, and in which zone. */
const KEPT = ['org', 'tz'] as const;

/** The address of a page; members that are empty are left out. */
export function hrefOf(page: string, query: Query = {}): string {
  const kept = Object.fromEntries(KEPT.map((name) => [name, place.value.query.get(name) ?? undefined]));
  return addressOf(page, { ...kept, ...query });
}

type Query = Readonly<Record<string, string | undefined>>;

function addressOf(page: string, query: Query): string {
  const url = new URL(`console/${page}`, ROOT);
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== '') url.searchParams.set(name, value);
  return url.pathname + url.search;
}

/** The address of this page with some members of its query changed; undefined takes one away. */
export function hrefWith(change: Query): string {
  const { page, query } = place.value;
  return addressOf(page, { ...Object.fromEntries(query), ...change });
}

/** Goes there without a new document. @param replaces the entry of the history, so that *back* leads past it */
export function go(href: string, replaces = false): void {
  const url = new URL(href, location.href);
  if (replaces || url.href === location.href) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  place.value = placeOf(url);
}

/** Takes over links of the console, and the browser's own *back*. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    place.value = placeOf(location);
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.('a');
    if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.hasAttribute('download')) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(`${ROOT.pathname}console/`)) return;
    event.preventDefault();
    go(link.href);
    if (link.dataset['stays'] === undefined) scrollTo(0, 0);
  });
}

function placeOf({ pathname, search }: { readonly pathname: string; readonly search: string }): PagePlace {
  const below = pathname.slice(`${ROOT.pathname}console/`.length);
  return { page: below.split('/')[0] ?? '', query: new URLSearchParams(search) };
}

/** What the address asks for where it is one of `of`, else what is usual. */
export function chosenOf<K extends string>(asked: string | null, of: Readonly<Record<K, string>>, usual: NoInfer<K>): K {
  return asked !== null && Object.hasOwn(of, asked) ? (asked as K) : usual;
}
