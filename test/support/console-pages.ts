import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { FakeClock } from './fake-clock.ts';
import { ADMIN_TOKEN, type TestGateway } from './gateway.ts';
import type { HasTeardown } from './temp-dir.ts';

/** A gateway, and the browser that looks at its console. */
export interface ConsolePlace {
  readonly gw: TestGateway;
  readonly clock: FakeClock;
  readonly browser: Browser;
}

export interface Seen {
  readonly page: Page;
  /** Errors of scripts and of the console, and what the content policy has stopped. */
  readonly problems: string[];
}

/** A browser at the first page, signed in by a link, whose clock is that of the gateway. */
export async function signedIn(t: HasTeardown, place: ConsolePlace, options: BrowserContextOptions = {}, key?: string): Promise<Seen> {
  const seen = await opened(t, place, options);
  await seen.page.goto(await linkOf(place, key));
  await seen.page.locator('main h1').waitFor();
  return seen;
}

/** What lets a browser in once. @param key a management key; undefined: the admin token */
export async function linkOf({ gw }: Pick<ConsolePlace, 'gw'>, key?: string): Promise<string> {
  const headers: Record<string, string> = key === undefined ? { 'GW-Admin-Token': ADMIN_TOKEN } : { Authorization: `Bearer ${key}` };
  const made = await fetch(`${gw.url}/v1/console/links`, { method: 'POST', headers });
  return ((await made.json()) as { url: string }).url;
}

/** A browser of its own, at no page yet. */
export async function opened(
  t: HasTeardown,
  { browser, clock }: Pick<ConsolePlace, 'browser' | 'clock'>,
  options: BrowserContextOptions,
): Promise<Seen> {
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    viewport: { width: 1280, height: 800 },
    ...options,
  });
  t.teardown(() => context.close());
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  await page.clock.setFixedTime(clock.now());
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (said) => {
    if (said.type() === 'error' || said.type() === 'warning') problems.push(said.text());
  });
  return { page, problems };
}

/** Goes to a page and waits until what it asks is there. */
export async function visit({ page }: Seen, { gw }: Pick<ConsolePlace, 'gw'>, path: string): Promise<void> {
  await page.goto(`${gw.url}/console/${path}`);
  await page.locator('main:has(h1):not(:has(.skeleton))').waitFor();
}
