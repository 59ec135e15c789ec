// An approval decided from the link of a chat message, by a person with nothing but a browser, a keyboard and a
// management key.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { fakedIn, HOSTILE, unseenIn } from '../support/hostile-text.ts';
import { Inbox } from '../support/inbox.ts';
import { type Managed, managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';
import { startPlainUpstream } from '../support/tls-upstream.ts';

const SLACK = 'hooks.slack.com';
const DAY_MS = 86_400_000;
/** Runs where any of these texts is taken for markup. */
const PEOPLE = '👩\u200d💻 می\u200cخواهم שָׁלוֹם';
const MARKUP = '<img src=x onerror=globalThis.ran=1><script>globalThis.ran=1</script>';
const asking = (reason: string) =>
  bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: ${JSON.stringify(reason)}}
`);
const ASK = { ...CHAT, user: 'ask' };

type Json = Record<string, unknown>;

interface Scene {
  readonly governed: Governed;
  readonly managed: Managed;
  readonly key: string;
  /** A request that is to wait. @returns its approval */
  ask(params?: object, extra?: object): Promise<string>;
  /** Where the page of an approval is. */
  at(id: string): string;
}

async function scene(t: Test, options: Parameters<typeof startGoverned>[1] = {}): Promise<Scene> {
  const governed = await startGoverned(t, { bundle: asking('large jobs are agreed on first'), ...options });
  const managed = await managedOf(governed.gw);
  return {
    governed,
    managed,
    key: (await managed.keyOf('default')).key,
    ask: async (params = ASK, extra = {}) => {
      const asked = await governed.execute(extra, { params });
      if (asked.status !== 202) throw new Error(asked.text);
      return String(asked.body['approval_id']);
    },
    at: (id) => `${governed.gw.url}/approvals/${id}`,
  };
}

/** A browser's person, whose page tells of everything that its policy has kept from running. */
async function personOf(t: Test, browser: Browser): Promise<{ page: Page; context: BrowserContext; violations: string[] }> {
  const context = await browser.newContext();
  context.setDefaultTimeout(120_000);
  t.teardown(() => context.close());
  const page = await context.newPage();
  const violations: string[] = [];
  await page.exposeFunction('tellViolation', (text: string) => violations.push(text));
  await page.addInitScript("document.addEventListener('securitypolicyviolation', (event) => tellViolation(event.violatedDirective));");
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) violations.push(message.text());
  });
  page.on('pageerror', (error) => violations.push(String(error)));
  page.on('dialog', (dialog) => violations.push(dialog.message()));
  return { page, context, violations };
}

/** By the keyboard alone. */
async function showWith(page: Page, key: string): Promise<void> {
  await typeKey(page, key);
  await page.locator('#request-title:focus').waitFor();
}

/** The field is the first place that Tab leads to. */
async function typeKey(page: Page, key: string): Promise<void> {
  await tabTo(page, '#key');
  await page.keyboard.type(key);
  await page.keyboard.press('Enter');
}

async function tabTo(page: Page, selector: string): Promise<void> {
  await page.keyboard.press('Tab');
  await page.locator(`${selector}:focus`).waitFor();
}

async function factsOf(page: Page): Promise<Readonly<Record<string, string>>> {
  const names = await page.locator('#facts dt').allTextContents();
  const values = await page.locator('#facts dd').allTextContents();
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));
}

/** What the page says of a problem. */
async function problemOf(page: Page): Promise<string> {
  const problem = page.locator('#problem:not(:empty)');
  await problem.waitFor();
  return problem.innerText();
}

t.test('a person at a browser', { skip: skipWithout(['chromium']) }, async (t) => {
  const browser = await startBrowser(t);

  await t.test('sees that a call waits now, and for how long, and sends it with a yes', async (t) => {
    const clock = fakeClock();
    const { governed, key, at } = await scene(t, { clock, env: { GW_APPROVAL_HOLD: '4m' } });
    const { page, violations } = await personOf(t, browser);
    // The person's clock is that of the gateway.
    await page.clock.setFixedTime(clock.now());
    const call = governed.execute({}, { params: ASK });
    let id = '';
    while (id === '') {
      const { items } = (await governed.gw.admin('GET', '/v1/admin/approvals?status=pending')).body as { items: Json[] };
      id = items[0]?.['held'] === undefined ? '' : String(items[0]['approval_id']);
    }
    await page.goto(at(id));
    await showWith(page, key);
    t.match(await page.locator('#held').innerText(), 'A call waits for your answer now: 240 s left.');
    t.equal((await factsOf(page))['A yes'], 'sends the waiting request now');
    await page.locator('#approve').press('Enter');
    await page.locator('#outcome-title:focus').waitFor();
    t.match(await page.locator('#outcome-text').innerText(), 'The waiting request is being sent now.');
    t.match(await call, { status: 200 });
    t.same(violations, []);
  });

  // Holds: approval-page-runs-nothing-foreign
  await t.test('follows the link of a chat message, sees what is asked, approves it, and it runs once', async (t) => {
    const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
    const usage = '{"usage":{"prompt_tokens":11,"completion_tokens":7}}';
    const { governed, managed, key, ask } = await scene(t, {
      hosts: [SLACK],
      handler: inbox.handler([SLACK], (_request, response) => response.setHeader('content-type', 'application/json').end(usage)),
    });
    const manage = managed.with(key);
    const config = { webhook_url: `https://${SLACK}/services/T0/B0/x` };
    const channel = (await manage('POST', 'alerts/channels', { name: 'ops', kind: 'slack', config })).body as Json;
    await manage('POST', 'alerts/subscriptions', { channel_id: channel['channel_id'], event: 'approval' });
    const id = await ask(ASK, { caller_id: 'bob' });
    await inbox.until(() => inbox.received.length === 1);
    const link = /"url":"([^"]+)"/.exec(inbox.received[0]?.text ?? '')?.[1] ?? '';
    t.equal(link, `${governed.gw.url}/approvals/${id}`);
    t.match(inbox.received[0]?.text, `gw approvals approve ${id}`, 'the commands stay');

    const chat = await startPlainUpstream((_request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(`<!doctype html><title>Chat</title><a href="${link}">decide</a>`);
    });
    t.teardown(() => chat.close());
    const { page, context, violations } = await personOf(t, browser);
    await page.goto(`http://localhost:${chat.port}/`);
    await tabTo(page, 'a');
    await page.keyboard.press('Enter');
    await page.waitForURL(link);
    await showWith(page, key);
    t.match(await factsOf(page), {
      Reason: 'large jobs are agreed on first',
      Workload: 'default',
      Caller: 'bob',
      Address: '127.0.0.1',
      What: 'ai.infer',
      Host: 'api.openai.com',
      'Method and path': /^POST/,
      Model: 'gpt-4o-mini',
      'Estimated cost': /^\$0\.0/,
      Rules: 'risk/large',
      'Sizes of params': /user \(5 bytes\)/,
      'Expires at': /\(20\d\d-.*Z\)$/,
    });
    t.equal(await page.locator('#content').isVisible(), false, 'what was asked is not kept');
    await tabTo(page, '#reason');
    await tabTo(page, '#approve');
    await page.keyboard.press('Enter');
    await page.locator('#outcome-title:focus').waitFor();
    t.equal(await page.locator('#outcome-title').innerText(), 'Approved');
    t.match(await page.locator('#state').innerText(), /^It was approved by key of default at /);
    t.equal(await page.locator('#decision').isVisible(), false);

    const again = () => governed.execute({ caller_id: 'bob' }, { params: ASK });
    t.match(await again(), { status: 200, body: { decision: 'allow' } });
    t.equal((await again()).status, 202, 'once');

    t.same(violations, []);
    t.equal(page.url(), link);
    t.equal(await page.locator('#key').inputValue(), '');
    t.same(await context.storageState(), { cookies: [], origins: [] });
    t.equal(await page.evaluate('sessionStorage.length + localStorage.length + document.cookie.length'), 0);
    await page.reload();
    await tabTo(page, '#key');
    t.equal(await page.locator('#request').isVisible(), false, 'whoever loads the page again is asked for the key again');
  });

  await t.test('denies with a reason, which whoever asks again is told', async (t) => {
    const { governed, managed, key, ask, at } = await scene(t);
    const id = await ask();
    const { page, violations } = await personOf(t, browser);
    await page.goto(at(id));
    await showWith(page, key);
    await tabTo(page, '#reason');
    await page.keyboard.type('not this quarter');
    await page.route('**/deny', (route) => route.abort());
    await page.locator('#deny').press('Enter');
    t.match(await problemOf(page), /nobody knows whether this was decided/);
    t.equal(await page.locator('#outcome').isVisible(), false);
    await page.unroute('**/deny');
    await page.locator('#reason').focus();
    await tabTo(page, '#approve');
    await tabTo(page, '#deny');
    await page.keyboard.press('Space');
    await page.locator('#outcome-title:focus').waitFor();
    t.equal(await page.locator('#outcome-title').innerText(), 'Denied');
    t.match((await governed.execute({}, { params: ASK })).text, /not this quarter/);
    const { body } = await managed.with(key)('GET', `approvals?approval_id=${id}`);
    t.match(body, { data: [{ status: 'denied', decided_by: 'key of default', decision_reason: 'not this quarter' }] });
    t.same(violations, []);
  });

  await t.test('is told when the key is wrong, of another org, for reading alone or of assistants', async (t) => {
    const { managed, key, ask, at } = await scene(t);
    const id = await ask();
    const { page, violations } = await personOf(t, browser);
    const refused = async (shown: string) => {
      await page.goto(at(id));
      await typeKey(page, shown);
      const said = await problemOf(page);
      t.equal(await page.locator('#request').isVisible(), false);
      t.equal(await page.locator('#facts').innerText(), '');
      return said;
    };
    t.match(await refused(`${key}x`), /does not take this key/);
    t.match(await refused('schlüssel ☃'), /could not be asked/);
    t.match(await refused((await managed.keyOf('globex')).key), 'The org of this key has no such approval.');
    t.match(await refused((await managed.keyOf('default', ['read'], 'mcp')).key), /does not take this key/);

    await page.goto(at(id));
    await showWith(page, (await managed.keyOf('default', ['read'])).key);
    await page.locator('#approve').press('Enter');
    t.match(await problemOf(page), /may not do that.*scope write/);
    t.equal(await page.locator('#outcome').isVisible(), false);
    const waiting = await managed.with(key)('GET', 'approvals?status=pending');
    t.match(waiting.body, { data: [{ approval_id: id }] }, 'and nothing is decided');
    t.same(violations, []);
  });

  await t.test('is told when somebody was first, and when the time is over', async (t) => {
    const clock = fakeClock();
    const { managed, ask, at } = await scene(t, { clock });
    const [id, late] = [await ask(), await ask({ ...ASK, seed: 2 })];
    const [mine, other] = [(await managed.keyOf('default')).key, (await managed.keyOf('default')).key];
    const { page, violations } = await personOf(t, browser);
    await page.goto(at(id));
    await showWith(page, mine);
    const decided = await managed.with(other)('POST', `approvals/${id}/deny`, { decided_by: 'olga', reason: 'no' });
    t.equal(decided.status, 200);
    await page.locator('#approve').press('Enter');
    t.match(await problemOf(page), /somebody was first.*was denied by .*, for olga\) at 20/);
    await page.locator('#request-title:focus').waitFor();
    t.match(await page.locator('#state').innerText(), /^It was denied by .* \(for olga\) at .*Reason: no\./);
    t.equal(await page.locator('#decision').isVisible(), false);

    await page.goto(at(late));
    await showWith(page, mine);
    clock.advance(2 * DAY_MS);
    await page.locator('#approve').press('Enter');
    t.match(await problemOf(page), /the time is over.*expired at 20/);
    t.match(await page.locator('#state').innerText(), /^It has expired/);

    await page.goto(at('no-such-approval'));
    await typeKey(page, mine);
    t.match(await problemOf(page), /no such approval/);
    t.same(violations, []);
  });

  // Holds: approval-page-runs-nothing-foreign
  await t.test('sees as text what a hostile caller has written, and none of it runs', async (t) => {
    const { key, ask, at } = await scene(t, { bundle: asking(MARKUP), env: { GW_APPROVAL_KEEP_CONTENT: 'true' } });
    const params = {
      ...ASK,
      model: `gpt-4o${MARKUP}`,
      messages: [
        { role: 'user', content: `</script>${MARKUP}\u202etxt.exe` },
        { role: 'user', content: `${HOSTILE} ${PEOPLE}` },
      ],
    };
    const id = await ask(params, { caller_id: 'bob\u3164\u{e0041}*x*', attribution: { labels: { team: MARKUP } } });
    const { page, violations } = await personOf(t, browser);
    await page.goto(at(id));
    await showWith(page, key);
    const facts = await factsOf(page);
    t.equal(facts['Reason'], MARKUP);
    t.equal(facts['Label team'], MARKUP);
    t.equal(facts['Model'], params.model);
    const shown = await page.locator('#params').inputValue();
    t.match(shown, MARKUP);
    t.match(shown, '\\u{202e}txt.exe', 'what turns text round is seen');
    t.same(fakedIn(shown), [], 'nothing of a prompt is hidden');
    t.match(shown, PEOPLE);
    t.same(unseenIn(await page.locator('#facts').innerText()), []);
    t.equal(facts['Caller'], 'bob\\u{3164}\\u{e0041}*x*');
    t.equal(await page.locator('#request img, #request script').count(), 0);
    await page.goto(`${at('x')}%3Cimg%20src=x%20onerror=globalThis.ran=1%3E`);
    t.equal(await page.locator('#approval-id').innerText(), 'x<img src=x onerror=globalThis.ran=1>');
    t.equal(await page.evaluate('typeof globalThis.ran'), 'undefined');
    t.same(violations, []);
  });

  await t.test('cannot be led to it inside a frame, nor can another site ask with it', async (t) => {
    const { key, ask, at } = await scene(t);
    const id = await ask();
    const approve = at(id).replace('/approvals/', '/mgmt/v1/approvals/');
    const site = await startPlainUpstream((_request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(`<!doctype html><iframe src="${at(id)}"></iframe>`);
    });
    t.teardown(() => site.close());
    const { page } = await personOf(t, browser);
    const framed = page.waitForResponse(at(id));
    await page.goto(`http://localhost:${site.port}/`);
    t.equal((await framed).status(), 403);
    const posted = await page.evaluate(
      `fetch(${JSON.stringify(`${approve}/approve`)}, {method: 'POST', headers: {Authorization: 'Bearer ${key}'}}).then(() => 'sent', () => 'kept')`,
    );
    t.equal(posted, 'kept');
  });
});
