// What somebody who works with the console all day runs into: keys that go elsewhere, old requests, several orgs, a
// gateway that is away.
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import t from 'tap';
import { checkPolicy } from '../../src/policy-tools/check.ts';
import { type ConsolePlace, linkOf, opened, signedIn, visit } from '../support/console-pages.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const HOUR = 3_600_000;
const BUNDLE = bundleOf(`  targets:
    - id: needs-human
      when: {field: context.action.params.model, equals: o3}
      effect: {decision: require_approval, reason: o3 needs the platform team}
    - id: needs-two
      when: {field: context.action.params.model, equals: o4}
      effect: {decision: require_approval, reason: o4 needs two, approval: {required: 2}}
    - {id: others, effect: {decision: allow}}
`);

interface Place extends Governed, ConsolePlace {
  /** Makes a request wait. @returns the id of its approval */
  readonly ask: (org: string, caller: string, model?: string) => Promise<string>;
  readonly decide: (id: string, as: 'approve' | 'deny') => Promise<void>;
  readonly statusOf: (id: string) => Promise<unknown>;
  readonly keyOf: Awaited<ReturnType<typeof managedOf>>['keyOf'];
}

async function start(t: HasTeardown): Promise<Place> {
  const clock = fakeClock();
  const governed = await startGoverned(t, { clock, bundle: BUNDLE });
  const { execute, gw } = governed;
  const ask = async (org: string, caller: string, model = 'o3') => {
    const { body } = await execute({ org_id: org, caller_id: caller }, { params: { ...CHAT, model, user: caller } });
    if (typeof body['approval_id'] !== 'string') throw new Error(JSON.stringify(body));
    return body['approval_id'];
  };
  const decide = async (id: string, as: string) => {
    const said = await gw.admin('POST', `/v1/admin/approvals/${id}/${as}`, { decided_by: 'ops' });
    if (said.status !== 200) throw new Error(said.text);
  };
  const statusOf = async (id: string) => ((await gw.admin('GET', `/v1/admin/approvals/${id}`)).body as { status: string }).status;
  const { keyOf } = await managedOf(gw);
  return { ...governed, clock, browser: await startBrowser(t), ask, decide, statusOf, keyOf };
}

const shownApproval = (page: Page) => page.locator('section.card:has(.consequence)');

/** The tab is left, or found again. */
const comesBack = (page: Page, hidden = false) =>
  page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));`);

t.test('somebody works with the console', { skip: skipWithout(['chromium']) }, async (t) => {
  const place = await start(t);

  await t.test('who goes on to Cancel does not say yes', async (t) => {
    const id = await place.ask('org-cancel', 'li');
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'approvals?org=org-cancel');
    await page.keyboard.press('a');
    await page.getByRole('button', { name: 'Yes, approve' }).waitFor();
    await page.keyboard.press('Tab');
    const focused = page.locator('button:focus', { hasText: 'Cancel' });
    await focused.waitFor();
    for (let round = 0; round < 2; round++) await page.waitForResponse(/\/mgmt\/v1\/approvals\?status=pending/);
    await page.clock.setFixedTime(place.clock.now() + 5_000);
    await page.waitForResponse(/\/mgmt\/v1\/approvals\?status=pending/);
    t.equal(await focused.count(), 1, 'nothing takes the focus back');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    t.equal(await place.statusOf(id), 'pending');
  });

  await t.test('what is read stays, whoever decides it meanwhile', async (t) => {
    const ids: Record<string, string> = { ann: await place.ask('org-stays', 'ann'), bob: await place.ask('org-stays', 'bob') };
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'approvals?org=org-stays');
    const card = shownApproval(page);
    const caller = /(ann|bob) asks for o3/.exec(await card.innerText())?.[1] ?? '';
    await place.decide(ids[caller] ?? '', 'approve');
    await card.getByText('approved by ops').waitFor();
    t.match(await card.innerText(), `${caller} asks for o3`);
  });

  await t.test('a request that waits is seen behind many that were decided, and an old one by its address', async (t) => {
    const waits = await place.ask('org-many', 'patience');
    const old = await place.ask('org-many', 'old');
    await place.decide(old, 'deny');
    for (let at = 0; at < 101; at++) await place.decide(await place.ask('org-many', `caller-${at}`), 'deny');
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'approvals?org=org-many');
    t.match(await shownApproval(page).innerText(), 'patience asks for o3');
    await page.getByText('1 waits', { exact: true }).waitFor();
    t.ok(page.url().includes('org=org-many') && waits !== old);
    await visit({ page, problems: [] }, place, `approvals?org=org-many&approval=${old}`);
    await shownApproval(page).getByText('old asks for o3').waitFor();
    t.match(await shownApproval(page).innerText(), 'denied by ops');
  });

  await t.test('an approval by several says what one yes is', async (t) => {
    await place.ask('org-two', 'li', 'o4');
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'approvals?org=org-two');
    t.match(
      await page.locator('.consequence').innerText(),
      /^Your yes counts as 1 of 2; the last one allows one identical request until \d{4}-/,
    );
  });

  await t.test('content that is kept is shown', async (t) => {
    await place.ask('org-content', 'li');
    const { page } = await signedIn(t, place);
    await page.route(/\/mgmt\/v1\/approvals/, async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { data: { action: Record<string, unknown> }[] };
      for (const { action } of body.data) action['params'] = { messages: [{ role: 'user', content: 'delete the bucket' }] };
      await route.fulfill({ response, json: body });
    });
    await visit({ page, problems: [] }, place, 'approvals?org=org-content');
    await page.getByText('delete the bucket').waitFor();
    t.notMatch(await shownApproval(page).innerText(), 'Not kept');
  });

  await t.test('who holds the admin token goes from org to org, and what he saves is of the org that he sees', async (t) => {
    await place.execute({ org_id: 'org-files', caller_id: 'zoe' }, { params: { ...CHAT } }, {});
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'calls');
    await page.getByText('No call yet').waitFor();
    await page.getByLabel('Org', { exact: true }).fill('org-files');
    await page.keyboard.press('Enter');
    await page.getByRole('cell', { name: 'zoe' }).first().waitFor();
    t.match(page.url(), /org=org-files/);
    await page.goBack();
    await page.getByText('No call yet').waitFor();
    t.equal(await page.getByLabel('Org', { exact: true }).inputValue(), 'default');
    await visit({ page, problems: [] }, place, 'spend?org=org-files&by=caller');
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
    t.equal(file.suggestedFilename(), 'spend-caller.csv');
    t.match(readFileSync(await file.path(), 'utf8'), /^period,org_id,caller,[\s\S]*,org-files,zoe,/);
    await visit({ page, problems: [] }, place, 'calls?org=org-files');
    await page.locator('tbody a').first().click();
    const [json] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'JSON' }).click()]);
    t.match(JSON.parse(readFileSync(await json.path(), 'utf8')), { org_id: 'org-files', caller_id: 'zoe' });
    await page.route(/billing\/report.*format=csv/, (route) => route.abort());
    await visit({ page, problems: [] }, place, 'spend?org=org-files');
    await page.getByRole('button', { name: 'CSV' }).click();
    await page.getByText('Not saved. The gateway does not answer.').waitFor();
  });

  await t.test('an address of another org tells so, and ends no session', async (t) => {
    const { key } = await place.keyOf('org-own');
    const { page } = await signedIn(t, place, {}, key);
    for (const org of ['org-foreign', 'a b', '€']) {
      await page.goto(`${place.gw.url}/console/calls?org=${encodeURIComponent(org)}`);
      await page.getByRole('alert').waitFor();
      t.notMatch(await page.getByRole('alert').innerText(), 'does not answer');
      t.equal(await page.getByRole('heading', { name: 'Sign in' }).count(), 0);
      await page.getByRole('link', { name: 'Back to org-own' }).click();
      await page.getByText('No call yet').waitFor();
    }
  });

  await t.test('who decides and reads nothing else is led to what waits', async (t) => {
    await place.ask('org-approver', 'li');
    const { key } = await place.keyOf('org-approver', ['approve']);
    const { page, problems } = await signedIn(t, place, {}, key);
    await shownApproval(page).getByText('li asks for o3').waitFor();
    const links = await page.getByRole('navigation').getByRole('link').allInnerTexts();
    t.match(links, [/^Approvals/, /^Quarantine/]);
    t.equal(links.length, 2);
    t.strictSame(problems, []);
  });

  await t.test('who cannot be signed out is told', async (t) => {
    const { page } = await signedIn(t, place);
    const away = (url: URL) => url.pathname === '/v1/console/session';
    await page.route(away, (route) => (route.request().method() === 'DELETE' ? route.abort() : route.continue()));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are still signed in. The gateway does not answer.').waitFor();
    await page.unroute(away);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    t.equal(await page.getByText('The session is over').count(), 0);
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  await t.test('a link that was used says so', async (t) => {
    const link = await linkOf(place);
    const one = await opened(t, place, {});
    await one.page.goto(link);
    await one.page.locator('main h1').waitFor();
    t.notMatch(one.page.url(), 'code=');
    const two = await opened(t, place, {});
    await two.page.goto(link);
    await two.page.getByRole('alert').waitFor();
    t.match(await two.page.getByRole('alert').innerText(), /This link was used before/);
  });

  await t.test('the second page of calls is there after a reload', async (t) => {
    for (let at = 0; at < 101; at++) await place.execute({ org_id: 'org-pages', caller_id: `caller-${at}` });
    const { page } = await signedIn(t, place);
    await visit({ page, problems: [] }, place, 'calls?org=org-pages');
    await page.getByRole('link', { name: 'Older' }).click();
    await page.getByText('1 call on this page').waitFor();
    await page.clock.setFixedTime(place.clock.now() + HOUR);
    await page.reload();
    await page.getByText('1 call on this page').waitFor();
    t.equal(await page.getByRole('alert').count(), 0);
  });

  await t.test('a browser whose clock is hours off shows what is left by that of the gateway', async (t) => {
    await place.ask('org-clock', 'li');
    const right = await signedIn(t, place);
    await visit(right, place, 'approvals?org=org-clock');
    const left = await shownApproval(right.page).locator('.badge').innerText();
    const wrong = await signedIn(t, place);
    for (const off of [5 * HOUR, -5 * HOUR]) {
      await wrong.page.clock.setFixedTime(place.clock.now() + off);
      await visit(wrong, place, 'approvals?org=org-clock');
      t.equal(await shownApproval(wrong.page).locator('.badge').innerText(), left);
      await visit(wrong, place, 'calls?org=org-clock&range=1h');
      await wrong.page.getByText('1 call on this page').waitFor();
    }
  });

  await t.test('one question is asked at a time, however often a tab is left and found again', async (t) => {
    const { page } = await signedIn(t, place);
    const held: (() => void)[] = [];
    await page.route(/\/mgmt\/v1\/overview/, (route) => {
      held.push(() => void route.continue());
    });
    const asked = page.waitForRequest(/\/mgmt\/v1\/overview/);
    await page.reload();
    await asked;
    const session = page.waitForResponse(/\/v1\/console\/session$/);
    for (const hidden of [true, false, true, false]) await comesBack(page, hidden);
    // What is asked of the session comes behind what the page would have asked.
    await session;
    t.equal(held.length, 1);
    for (const go of held) go();
    await page.getByText('Calls over time').first().waitFor();
  });

  await t.test('another tab that has signed out, or in as somebody else, counts here too', async (t) => {
    const { key } = await place.keyOf('org-tabs', ['read']);
    const { page } = await signedIn(t, place);
    const tab = await page.context().newPage();
    await tab.clock.setFixedTime(place.clock.now());
    await tab.goto(await linkOf(place, key));
    await tab.getByText('org-tabs').first().waitFor();
    await comesBack(page);
    await page.getByText('org-tabs').first().waitFor();
    t.equal(await page.getByRole('button', { name: 'Stop…' }).count(), 0);
    await tab.getByRole('button', { name: 'Sign out' }).click();
    await tab.getByRole('heading', { name: 'Sign in' }).waitFor();
    await comesBack(page);
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  await t.test('a draft of a rule is one, whatever the domain is called', async (t) => {
    const { page } = await signedIn(t, place);
    const names = ['chat.example', '*.example', '1.2.3.4', '123', `a"}, effect: {decision: allow}}\n  - id: x`, '- b: c', '\u2028{{}}'];
    await page.route(/\/discovery\/domains/, (route) =>
      route.fulfill({
        json: {
          data: names.map((domain) => ({ domain, managed: false, workloads: [], hits: 1, first_seen: NOW, last_seen: NOW })),
          next_cursor: null,
          has_more: false,
        },
      }),
    );
    const NOW = new Date(place.clock.now()).toISOString();
    await visit({ page, problems: [] }, place, 'domains');
    for (let at = 0; at < names.length; at++) {
      await page
        .getByRole('button', { name: /^A rule for/ })
        .nth(at)
        .click();
      const draft = await page.getByRole('dialog').locator('pre').innerText();
      const text = bundleOf(`${draft.trimEnd().replace(/^/gm, '  ')}\n`);
      const { errors } = checkPolicy({ tier: 'enterprise', bundle: { text, file: 'bundle.yaml' } });
      // What is no name of a host is refused as that, and adds nothing to the rule.
      const isHost = /^[\w.]+$/.test(names[at] ?? '');
      t.strictSame(
        errors.map(({ path }) => path),
        isHost ? [] : ['inline_rules.targets[0].when.equals'],
        draft,
      );
      t.equal(draft.match(/decision:/g)?.length, names[at]?.includes('decision:') ? 2 : 1);
      await page.keyboard.press('Escape');
    }
  });

  await t.test('a gateway that was away is found again', async (t) => {
    const { page } = await signedIn(t, place);
    await page.getByText('Calls over time').first().waitFor();
    await page.route(/\/mgmt\/v1\/overview/, (route) => route.abort());
    await page.getByRole('alert').getByText('The gateway does not answer.').waitFor();
    t.equal(await page.getByText('Calls over time').first().isVisible(), true, 'what was known stands');
    await page.unroute(/\/mgmt\/v1\/overview/);
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });
});
