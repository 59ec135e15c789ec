/** What stands in the place of a secret wherever it is shown (specification, "Management API": a run of bullets). */
export const MASK = '••••••••••••';

const RUN = /•{3}|(?:%E2%80%A2){3}/i;

/** Whether somebody sends back what he was shown in the place of a secret. */
export function holdsMask(text: string): boolean {
  return RUN.test(text);
}

/**
 * An address as it is shown: many receivers take their secret as a part of the path or the query, so that scheme, host and port are all that is told of it.
 * @returns the URL itself where nothing stands behind its host; '' for what is no URL
 */
export function maskedUrl(url: string): string {
  if (!URL.canParse(url)) return '';
  const { origin, pathname, search, hash } = new URL(url);
  return `${origin}/${pathname === '/' && search === '' && hash === '' ? '' : MASK}`;
}
