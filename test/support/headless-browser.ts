import { type Browser, chromium } from 'playwright-core';
import { requirePeer } from './peers.ts';
import type { HasTeardown } from './temp-dir.ts';

/** A Chromium without a window, closed at the end of the test, that asks nobody for anything by itself. */
export async function startBrowser(t: HasTeardown): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: requirePeer('chromium'),
    headless: true,
    timeout: 600_000,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update'],
  });
  t.teardown(() => browser.close());
  return browser;
}
