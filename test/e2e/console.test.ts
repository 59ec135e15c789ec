// The console in a real browser: what it shows, what it lets one do, by keyboard too, and that no text in it acts.
import { readFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import t from 'tap';
import type { KeyScope } from '../../src/base/model/keys.ts';
import { opened, signedIn, visit } from '../support/console-pages.ts';
import type { FakeClock } from '../support/fake-clock.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';

const BUNDLE = bundleOf(`  targets:
    - id: no-dear-models
      when: {field: context.action.params.model, equals: o1-pro}
      effect: {decision: deny, reason: "gpt-4.1 will do: o1-pro is too dear", reason_codes: [model_not_approved]}
    - id: needs-human
      when: {field: context.action.params.model, equals: o3}
      effect: {decision: require_approval, reason: o3 needs the platform team}
    - id: no-exports
      when: {field: context.action.params.model, equals: o1}
      effect: {decision: quarantine, reason: "exports are stopped, ask the platform team"}
    - {id: others, effect: {decision: allow}}
`);
const PAGES = [
  ...['', 'calls', 'approvals', 'spend', 'domains', 'keys', 'limits', 'quarantine', 'quarantine?show=all', 'providers', 'nodes'],
  ...['audit', 'audit?operation=budgets'],
];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');
/** What a stranger writes: markup, a script, a sign that turns round what follows. */
const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>\u202e`;
const SHOWN = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>\\u{202e}`;

interface Place extends Governed {
  readonly clock: FakeClock;
  readonly browser: Browser;
  /** Ids of records: one that was refused, and one of a stranger. */
  readonly denied: string;
  readonly hostile: string;
  readonly approval: string;
}

async function start(t: Tap): Promise<Place> {
  const clock = fakeClock();
  const governed = await startGoverned(t, { clock, bundle: BUNDLE });
  const { execute, gw } = governed;
  const call = async (model: string, extra: object = {}) => (await execute(extra, { params: { ...CHAT, model } })).body;
  for (let at = 0; at < 3; at++) await call('gpt-4o-mini', { attribution: { project_id: 'search' } });
  const denied = String((await call('o1-pro', { caller_id: 'dana' }))['record_id']);
  const hostile = String((await call('o1-pro', { caller_id: HOSTILE }))['record_id']);
  const approval = String((await call('o3', { caller_id: 'li' }))['approval_id']);
  for (const id of [denied, hostile, approval]) if (!/^[0-9a-f-]{36}$/.test(id)) throw new Error(`no id: ${id}`);
  t.equal((await gw.record(denied))['decision'], 'deny');
  await call('o1', { caller_id: 'mallory' });
  await call('o1', { caller_id: 'eve' });
  const limit = { scope: 'project', limit_usd: '100', period: 'monthly', actions: ['alert', 'cap'] };
  // What is spent already is more than the second one allows.
  for (const change of [{ scope_id: 'search' }, { scope: 'org', limit_usd: '0.0000001' }])
    t.equal(
      (await gw.admin('POST', '/v1/admin/budgets/limits', { ...limit, ...change, ...('scope' in change ? { actions: ['alert'] } : {}) }))
        .status,
      201,
    );
  return { ...governed, clock, browser: await startBrowser(t), denied, hostile, approval };
}

type Tap = Pick<typeof t, 'teardown' | 'equal'>;

t.test('the console', { skip: skipWithout(['chromium']) }, async (t) => {
  const place = await start(t);

  await t.test('shows nobody anything who has not signed in', async (t) => {
    const seen = await opened(t, place, {});
    const asked: string[] = [];
    seen.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await seen.page.goto(`${place.gw.url}/console/calls`);
    await seen.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    t.strictSame(
      asked.filter((path) => !path.startsWith('/console/')),
      ['/v1/console/session'],
      'no datum is even asked for',
    );
    t.strictSame(seen.problems, []);
    await seen.page.getByLabel('Admin token or management key').fill('mgk_wrong');
    await seen.page.keyboard.press('Enter');
    await seen.page.getByRole('alert').waitFor();
    await seen.page.getByLabel('Admin token or management key').fill(ADMIN_TOKEN);
    await seen.page.keyboard.press('Enter');
    await seen.page.getByRole('heading', { name: 'Calls' }).waitFor();
    t.match(seen.page.url(), /\/console\/calls$/, 'it leads where somebody wanted to go');
    await seen.page.getByRole('button', { name: 'Sign out' }).click();
    await seen.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  await t.test('is whole at every width, in light and dark, for everybody', async (t) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const seen = await signedIn(t, place, { colorScheme, bypassCSP: true });
      for (const path of [...PAGES, `calls?call=${place.denied}&range=7d`]) {
        for (const width of colorScheme === 'light' ? [1280, 768, 360] : [1280]) {
          await seen.page.setViewportSize({ width, height: 800 });
          await visit(seen, place, path);
          const name = `${path || 'now'}, ${width} wide, ${colorScheme}`;
          t.ok((await seen.page.locator('html').evaluate(({ scrollWidth }) => scrollWidth)) <= width, `${name}: nothing stands out`);
          // A width between two others has the elements of one of them; dark has other colours and nothing else.
          if (width === 1280 || (width === 360 && colorScheme === 'light')) t.strictSame(await violationsOf(seen.page), [], name);
        }
      }
      t.strictSame(seen.problems, []);
      await seen.page.context().close();
    }
  });

  await t.test('breaks no rule of its content policy, and asks once for a list', async (t) => {
    const seen = await signedIn(t, place);
    for (const path of PAGES) await visit(seen, place, path);
    const asked: string[] = [];
    seen.page.on('request', (request) => {
      if (request.url().includes('/mgmt/v1/')) asked.push(request.url());
    });
    await visit(seen, place, 'calls?decision=deny&range=7d');
    t.equal(asked.length, 1, 'one question for a page of calls');
    await seen.page.locator('.u-wrap').waitFor({ state: 'detached' });
    await visit(seen, place, '');
    await seen.page.locator('.u-wrap canvas').waitFor();
    t.strictSame(seen.problems, []);
  });

  await t.test('says in a sentence why a call was refused, from its id alone', async (t) => {
    const seen = await signedIn(t, place);
    await seen.page.keyboard.press('/');
    await seen.page.keyboard.type(place.denied);
    await seen.page.keyboard.press('Enter');
    const panel = seen.page.getByRole('region', { name: 'Call' });
    await panel.getByText('gpt-4.1 will do: o1-pro is too dear.').waitFor();
    await panel.getByText('targets/no-dear-models').first().waitFor();
    t.match(await panel.innerText(), /bundle\.yaml:\d+/, 'with file and line');
    t.match(await panel.innerText(), /What would let it through/);
    const address = seen.page.url();
    await seen.page.goto('about:blank');
    await seen.page.goto(address);
    await panel.getByText('gpt-4.1 will do: o1-pro is too dear.').waitFor();
    await seen.page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    t.strictSame(seen.problems, []);
  });

  await t.test('walks from call to call within the filter', async (t) => {
    const seen = await signedIn(t, place);
    await visit(seen, place, 'calls?decision=deny&range=7d');
    await seen.page.locator('tbody tr').first().waitFor();
    const rows = await seen.page.locator('tbody tr').count();
    const ids: string[] = [];
    for (let at = 0; at < rows; at++) {
      await seen.page.keyboard.press('j');
      await seen.page.waitForURL((url) => url.searchParams.get('call') !== (ids.at(-1) ?? null));
      ids.push(new URL(seen.page.url()).searchParams.get('call') ?? '');
    }
    t.equal(new Set(ids).size, rows);
    t.ok(ids.includes(place.denied) && ids.includes(place.hostile));
    for (const id of ids) t.not((await place.gw.record(id))['decision'], 'allow');
    await seen.page.keyboard.press('[');
    await seen.page.waitForURL((url) => url.searchParams.get('call') === ids.at(-2));
  });

  await t.test('shows what a stranger wrote as text', async (t) => {
    const seen = await signedIn(t, place);
    await visit(seen, place, `calls?call=${place.hostile}&range=7d`);
    const panel = seen.page.getByRole('region', { name: 'Call' });
    await panel.getByText('is too dear').first().waitFor();
    t.ok((await panel.innerText()).includes(SHOWN), await panel.innerText());
    await visit(seen, place, `calls?caller_id=${encodeURIComponent(HOSTILE)}&range=7d`);
    await visit(seen, place, 'spend?by=caller');
    t.not(await seen.page.title(), 'owned');
    t.equal(await seen.page.locator('main img').count(), 0);
    t.strictSame(seen.problems, []);
  });

  await t.test('decides by a letter and Enter, never by one key', async (t) => {
    const seen = await signedIn(t, place);
    await seen.page.keyboard.press('g');
    await seen.page.keyboard.press('a');
    await seen.page.getByText('li asks for o3').first().waitFor();
    t.match(await seen.page.locator('.consequence').innerText(), /^If you say yes, the same request may be sent to api\.openai\.com once/);
    const status = async () => ((await place.gw.admin('GET', `/v1/admin/approvals/${place.approval}`)).body as { status: string }).status;
    await seen.page.keyboard.press('Enter');
    await seen.page.keyboard.press('a');
    await seen.page.getByRole('button', { name: 'Yes, approve' }).waitFor();
    t.equal(await status(), 'pending');
    await seen.page.keyboard.press('Enter');
    await seen.page.getByRole('button', { name: 'Yes, approve' }).waitFor({ state: 'detached' });
    t.equal(await status(), 'approved');
    t.strictSame(seen.problems, []);
  });

  await t.test('makes the first management key, which opens what it may and no more', async (t) => {
    const seen = await signedIn(t, place);
    await visit(seen, place, 'keys');
    await seen.page.getByRole('button', { name: 'New key' }).click();
    await seen.page.getByLabel('What it is called').fill('reader');
    await seen.page.getByRole('button', { name: 'Make the key' }).click();
    const key = (await seen.page.locator('[data-secret]').innerText()).trim();
    t.match(key, /^mgk_[A-Za-z0-9_-]{43}$/);
    await seen.page.getByRole('button', { name: 'Done' }).click();
    await seen.page.getByRole('rowheader', { name: 'reader' }).waitFor();
    const manage = (await managedOf(place.gw)).with(key);
    t.equal((await manage('GET', 'records')).status, 200);
    t.equal((await manage('POST', 'keys', { name: 'x', kind: 'management', scopes: ['read'] })).status, 403);

    const reader = await signedIn(t, place, {}, key);
    await visit(reader, place, 'keys');
    for (const name of ['New key', 'Stop…', 'Revoke reader?']) t.equal(await reader.page.getByRole('button', { name }).count(), 0, name);
    t.strictSame(reader.problems, []);

    await seen.page.getByRole('button', { name: 'Revoke reader?' }).click();
    await seen.page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click();
    await seen.page.getByRole('rowheader', { name: 'reader' }).waitFor({ state: 'detached' });
    t.equal((await manage('GET', 'records')).status, 401);
    await reader.page.reload();
    await reader.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  await t.test('says who is held and why, and releases by a sentence and a second press', async (t) => {
    const { keyOf } = await managedOf(place.gw);
    const made = async (scope: KeyScope) => (await keyOf('default', [scope])).key;
    const reader = await signedIn(t, place, {}, await made('read'));
    await visit(reader, place, 'quarantine');
    await reader.page.getByRole('rowheader', { name: 'mallory' }).waitFor();
    t.equal(await reader.page.getByRole('button', { name: 'Release mallory?' }).count(), 0, 'whoever may look has no button');

    const held = async () => (await place.execute({ caller_id: 'mallory' })).body['decision'];
    t.equal(await held(), 'quarantine');
    const seen = await signedIn(t, place, {}, await made('approve'));
    await seen.page.keyboard.press('g');
    await seen.page.keyboard.press('q');
    await seen.page.getByText('exports are stopped, ask the platform team').first().waitFor();
    await seen.page.getByRole('button', { name: 'Release mallory?' }).click();
    await seen.page.getByText('From the next request on policy decides about mallory again.').waitFor();
    t.equal(await held(), 'quarantine', 'nothing is done by the first press');
    await seen.page.getByLabel('For whom or why').fill('the export team');
    await seen.page.keyboard.press('Enter');
    await seen.page.getByRole('rowheader', { name: 'mallory' }).waitFor({ state: 'detached' });
    t.equal(await seen.page.getByRole('rowheader', { name: 'eve' }).count(), 1, 'and nobody else is released');
    t.equal(await held(), 'allow');
    await seen.page.getByRole('link', { name: 'Released' }).click();
    await seen.page.getByText('by key of default for the export team').waitFor();
  });

  await t.test('says which limit bites first, and who has laid it down', async (t) => {
    const seen = await signedIn(t, place);
    await visit(seen, place, 'limits');
    const rows = seen.page.getByRole('region', { name: 'Budgets' }).locator('tbody tr');
    t.match(await rows.first().innerText(), /the whole org.*\$0\.0000001.*reached/s, 'what is reached stands first');
    t.match(await rows.nth(1).innerText(), /project search.*of \$100.*alerts, refuses/s);
    await seen.page.getByRole('link', { name: 'Projects' }).click();
    await seen.page.waitForURL((url) => url.searchParams.get('scope') === 'project');
    await rows.nth(1).waitFor({ state: 'detached' });
    await rows.first().waitFor();
    t.equal(await rows.count(), 1);

    await visit(seen, place, 'audit?operation=budgets');
    await seen.page.locator('tbody tr').first().waitFor();
    await seen.page.keyboard.press('j');
    const panel = seen.page.getByRole('region', { name: 'Change' });
    await panel.getByRole('rowheader', { name: 'limit_usd' }).waitFor();
    t.match(await panel.innerText(), /0\.0000001/);
    const { searchParams: sent } = new URL(seen.page.url());
    // Of a list in which it is not, or no longer, an entry that was sent is found all the same.
    await visit(seen, place, `audit?operation=keys&entry=${sent.get('entry')}&at=${sent.get('at')}`);
    await panel.getByText('budgets.create').first().waitFor();
    await seen.page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    t.strictSame(seen.problems, []);
  });

  await t.test('switches a provider off and on, after it has said what that does', async (t) => {
    const seen = await signedIn(t, place);
    await visit(seen, place, 'providers');
    await seen.page.getByRole('button', { name: 'Switch off OpenAI (openai)?' }).click();
    await seen.page.getByText('is denied with provider_disabled').waitFor();
    t.equal((await place.execute()).body['decision'], 'allow');
    await seen.page.getByRole('dialog').getByRole('button', { name: 'Switch off' }).click();
    await seen.page.getByRole('button', { name: 'Switch on OpenAI (openai)?' }).click();
    t.equal((await place.execute()).body['decision'], 'deny');
    await seen.page.getByRole('dialog').getByRole('button', { name: 'Switch on' }).click();
    await seen.page.getByRole('button', { name: 'Switch off OpenAI (openai)?' }).waitFor();
    t.equal((await place.execute()).body['decision'], 'allow');
    t.strictSame(seen.problems, []);
  });

  await t.test('stops everything by a typed word, and starts it again', async (t) => {
    const seen = await signedIn(t, place);
    await seen.page.getByRole('button', { name: 'Stop…' }).click();
    await seen.page.getByLabel('Reason, shown to who is refused').fill('a key has leaked');
    await seen.page.getByRole('button', { name: 'Stop it' }).click();
    t.equal((await place.execute()).status, 200, 'without the word nothing stops');
    await seen.page.getByLabel('Type stop to confirm').fill('stop');
    await seen.page.getByRole('button', { name: 'Stop it' }).click();
    await seen.page.getByRole('button', { name: 'Resume' }).waitFor();
    const refused = await place.execute();
    t.not(refused.status, 200);
    t.match(refused.text, 'a key has leaked');
    await seen.page.getByRole('button', { name: 'Resume' }).click();
    await seen.page.getByRole('button', { name: 'Resume' }).waitFor({ state: 'detached' });
    t.equal((await place.execute()).status, 200);
    t.strictSame(seen.problems, []);
  });
});

/** What axe finds: rules and the first element of each. */
async function violationsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run: (options: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> };
    };
    const { violations } = await axe.run({ resultTypes: ['violations'] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
  });
}

t.test('it works below a path of a proxy', { skip: skipWithout(['chromium']) }, async (t) => {
  const clock = fakeClock();
  const { gw } = await startGoverned(t, { clock, bundle: BUNDLE });
  const proxy = createServer((incoming, answer) => {
    const { method, headers } = incoming;
    const origin = headers.origin === undefined ? {} : { origin: gw.url };
    const path = (incoming.url ?? '').replace(/^\/gw(?=\/)/, '');
    const out = httpRequest(gw.url + path, { method, headers: { ...headers, ...origin, host: new URL(gw.url).host } }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers);
      got.pipe(answer);
    });
    incoming.pipe(out);
  }).listen(0, '127.0.0.1');
  t.teardown(() => proxy.close().closeAllConnections());
  await new Promise((resolve) => proxy.once('listening', resolve));
  const base = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/gw`;
  const seen = await opened(t, { browser: await startBrowser(t), clock }, {});
  await seen.page.goto(`${base}/console`);
  await seen.page.getByLabel('Admin token or management key').fill(ADMIN_TOKEN);
  await seen.page.keyboard.press('Enter');
  await seen.page.getByRole('heading', { name: 'Now', exact: true }).waitFor();
  await seen.page.getByRole('link', { name: 'Spend' }).click();
  await seen.page.getByRole('heading', { name: 'Spend' }).waitFor();
  t.equal(new URL(seen.page.url()).pathname, '/gw/console/spend');
  t.strictSame(seen.problems, []);
});
