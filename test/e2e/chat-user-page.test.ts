// Somebody presses a button in Slack for the first time, says in a browser who he is, and presses it again.
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';
import { CHAT_HOSTS, CONFIGS, chatInbox, HOOKS, press, SIGNING_SECRET, seenIn } from '../support/slack.ts';

const BUNDLE = bundleOf(`  risk:
    - {id: ask, effect: {decision: require_approval, reason: ask first}}
`);
/** Nothing of it is markup, and what would turn it round is written out. */
const NAME = '<b>olga</b>\u202e';

t.test('a person binds an account of a chat by the page', { skip: skipWithout(['chromium']) }, async (t) => {
  const clock = fakeClock();
  const inbox = chatInbox();
  const { gw, execute } = await startGoverned(t, {
    clock,
    bundle: BUNDLE,
    hosts: CHAT_HOSTS,
    handler: inbox.handler(CHAT_HOSTS),
    env: { GW_SLACK_SIGNING_SECRET: SIGNING_SECRET },
  });
  const { keyOf, with: withKey } = await managedOf(gw);
  const { key } = await keyOf('default');
  const manage = withKey(key);
  const channel = (await manage('POST', 'alerts/channels', { name: 'ops', kind: 'slack', config: CONFIGS.slack })).body as {
    channel_id: string;
  };
  await manage('POST', 'alerts/subscriptions', { channel_id: channel.channel_id, event: 'approval' });
  const asked = await execute({}, { params: CHAT });
  await inbox.until(() => inbox.of(HOOKS).length === 1);
  const message = inbox.of(HOOKS)[0];
  if (message === undefined) throw new Error('no message came');
  const button = seenIn(message).buttons.find(({ action_id: id }) => id === 'gw_approve') ?? {};
  await press(gw.url, button, { at: clock.now(), name: NAME });
  await inbox.until(() => inbox.of(HOOKS).length === 2);
  const [link = ''] = /http:\/\/127\.0\.0\.1:\d+\/chat-users\/[^|]+/.exec(inbox.of(HOOKS)[1]?.text ?? '') ?? [];

  const browser = await startBrowser(t);
  const context = await browser.newContext();
  t.teardown(() => context.close());
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (said) => {
    if (said.text().includes('Content Security Policy')) problems.push(said.text());
  });
  await page.goto(link);
  t.notMatch(page.url(), '#', 'the address shows no code');
  await page.locator('#key').fill('mgk_wrong');
  await page.keyboard.press('Enter');
  await page.locator('#problem:not(:empty)').waitFor();
  t.match(await page.locator('#problem').innerText(), /does not take this key/);
  await page.locator('#key').fill(key);
  await page.keyboard.press('Enter');
  await page.locator('#account-title:focus').waitFor();
  t.same(await page.locator('#facts dd').allTextContents(), ['slack', 'acme (T0ACME)', '<b>olga</b>\\u{202e} (U0OLGA)', 'key of default']);
  t.equal(await page.locator('#key').inputValue(), '');
  await page.locator('#confirm').click();
  await page.locator('#outcome-title:focus').waitFor();
  t.match(await page.locator('#outcome-text').innerText(), /decides as the key key of default/);
  t.same(problems, []);

  await press(gw.url, button, { at: clock.now(), name: NAME });
  await inbox.until(() => inbox.of(HOOKS).length === 3);
  const last = inbox.of(HOOKS)[2];
  t.match(last && seenIn(last), { title: /^Approved/ });
  t.match((await gw.admin('GET', `/v1/admin/approvals/${String(asked.body['approval_id'])}`)).body, { status: 'approved' });
});
