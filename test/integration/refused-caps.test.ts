// A cap says when it refuses for the first time in its period, and each refusal says in its record and its answer which
// cap it was, what is spent and when it begins anew.
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { managedAs } from '../support/managed.ts';
import { gw as runGw } from '../support/run-gw.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const SLACK = 'hooks.slack.com';
const DAY = 86_400_000;
/** Saturday. */
const START = Date.UTC(2026, 10, 28, 12);

/** Charges as many output tokens as the call allows: a thousand cost 0.015. */
const charge: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { max_tokens: out = 0 } = JSON.parse(body.toString()) as { max_tokens?: number };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ usage: { prompt_tokens: 0, completion_tokens: out } }));
  });

const params = (tokens: number, more: object = {}) => ({ model: 'gpt-4o-2024-05-13', messages: [], max_tokens: tokens, ...more });

type Json = Readonly<Record<string, unknown>>;

interface Scene {
  readonly governed: Governed;
  readonly inbox: Inbox;
  readonly clock: ReturnType<typeof fakeClock>;
  /** Resolves when so many alerts have been delivered: the channel has answered. */
  delivered(count: number): Promise<unknown>;
  /** Lines of the log that tell of budgets. */
  alerts(): readonly Json[];
  call(tokens: number, extra?: object): Promise<number>;
  limit(body: object): Promise<string>;
  subscribe(subject: object): Promise<void>;
}

async function scene(t: HasTeardown, bundle = ALLOW_ALL, clock = fakeClock(START), env: Record<string, string> = {}): Promise<Scene> {
  const lines: Json[] = [];
  const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
  const write = (line: string) => void lines.push(JSON.parse(line) as Json);
  const log = createLogger({ level: 'info', format: 'json', destination: { write } });
  const governed = await startGoverned(t, { bundle, clock, log, env, hosts: [SLACK], handler: inbox.handler([SLACK], charge) });
  const { manage } = await managedAs(governed.gw, 'default');
  return {
    governed,
    inbox,
    clock,
    delivered: (count) =>
      eventually('alerts are delivered', async () => {
        const { data } = (await manage('GET', 'alerts/history')).body as { readonly data: readonly Json[] };
        return data.filter(({ outcome }) => outcome === 'delivered').length === count || undefined;
      }),
    alerts: () => lines.filter(({ msg }) => msg === 'the cap of a budget refuses calls' || msg === 'a budget reached a threshold'),
    call: async (tokens, extra = {}) => (await governed.execute(extra, { params: params(tokens) })).status,
    limit: async (body) => ((await manage('POST', 'budgets/limits', { scope: 'org', ...body })).body as { limit_id: string }).limit_id,
    subscribe: async (subject) => {
      const config = { webhook_url: `https://${SLACK}/services/T0/B0/${Object.keys(subject).join()}` };
      const made = (await manage('POST', 'alerts/channels', { name: 'money', kind: 'slack', config })).body as Json;
      const { status } = await manage('POST', 'alerts/subscriptions', { channel_id: made['channel_id'], ...subject });
      if (status !== 201) throw new Error(String(status));
    },
  };
}

t.test('a cap alerts when it first refuses, once in its period, also where it raises no other alerts', async (t) => {
  const { alerts, call, clock, delivered, inbox, limit, subscribe } = await scene(t);
  const id = await limit({ limit_usd: '0.02', period: 'daily', actions: ['cap'] });
  await subscribe({ limit_id: id });
  t.equal(await call(1000), 200);
  t.same(alerts(), []);
  for (let at = 0; at < 3; at += 1) t.equal(await call(1000), 403);
  const about = {
    limit_id: id,
    level: 'exceeded',
    limit_usd: exactly('0.02'),
    spent_usd: exactly('0.015'),
    cost_estimate_usd: exactly('0.015'),
  };
  t.match(alerts(), [{ ...about, reserved_usd: exactly('0'), period_start: '2026-11-28', resets_at: '2026-11-29T00:00:00.000Z' }]);
  await inbox.until(() => inbox.of(SLACK).length === 1);
  t.match(inbox.of(SLACK)[0]?.body, { text: 'Budget refuses calls: org default at 75.0 %' });
  // An answer that is under way would be a day late.
  await delivered(1);
  clock.advance(DAY);
  t.equal(await call(1000), 200);
  t.equal(await call(1000), 403);
  t.match(alerts().slice(1), [{ period_start: '2026-11-29', level: 'exceeded' }], 'and in the next period once more');
  await inbox.until(() => inbox.of(SLACK).length === 2);
});

t.test('that a cap refuses takes the place of no threshold; what both would say is said once', async (t) => {
  const { alerts, call, inbox, limit, subscribe } = await scene(t);
  const id = await limit({ limit_usd: '0.1', warning_threshold_pct: 30, critical_threshold_pct: 60, actions: ['alert', 'cap'] });
  await subscribe({ limit_id: id });
  t.equal(await call(10_000), 403, 'more than all of it, while nothing is spent');
  for (let at = 0; at < 6; at += 1) t.equal(await call(1000), 200);
  t.equal(await call(1000), 403);
  t.equal(await call(667), 403);
  t.equal(await call(666), 200);
  t.same(
    alerts().map(({ level, msg }) => [level, msg]),
    [
      ['exceeded', 'the cap of a budget refuses calls'],
      ['warning', 'a budget reached a threshold'],
      ['critical', 'a budget reached a threshold'],
    ],
  );
  await inbox.until(() => inbox.of(SLACK).length === 3);
  t.same(
    inbox.of(SLACK).map(({ body }) => body['text']),
    ['Budget refuses calls: org default at 0.0 %', 'Budget warning: org default at 30.0 %', 'Budget critical: org default at 60.0 %'],
  );
});

t.test('what a removal would take away names a limit that has refused alone, and none of its notes', async (t) => {
  const { governed, alerts, call, limit } = await scene(t);
  const id = await limit({ limit_usd: '0.02', period: 'daily', actions: ['alert', 'cap'], warning_threshold_pct: 10 });
  t.equal(await call(1000), 200);
  t.equal(await call(1000), 403);
  t.equal(alerts().length, 2);
  const { manage } = await managedAs(governed.gw, 'default');
  const { body } = await manage('DELETE', `budgets/limits/${id}?dry_run=true`);
  t.match(body, { dry_run: true, lost: [{ entity: 'budget_limit', object: id }] });
  t.same((body as Json)['counts'], { budget_limit: 1 });
});

t.test('a restart says it no second time', async (t) => {
  const clock = fakeClock(START);
  const first = await scene(t, ALLOW_ALL, clock);
  await first.limit({ limit_usd: '0.01', actions: ['cap'] });
  t.equal(await first.call(1000), 403);
  t.equal(first.alerts().length, 1);
  await first.governed.gw.gateway.stop();
  const second = await scene(t, ALLOW_ALL, clock, { GW_DATA_DIR: first.governed.gw.dataDir });
  t.equal(await second.call(1000), 403);
  t.same(second.alerts(), []);
});

t.test('caps of rules alert those who subscribe to all budgets of the org', async (t) => {
  const bundle = bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {monthly_usd_max: "0.02"}}}\n');
  const { alerts, call, inbox, limit, subscribe } = await scene(t, bundle);
  await subscribe({ event: 'budget_alert' });
  const other = await limit({ scope: 'workload', scope_id: 'default', limit_usd: '0.04', actions: ['cap'] });
  const apollo = { attribution: { project_id: 'apollo' } };
  t.equal(await call(1000, apollo), 200);
  for (let at = 0; at < 2; at += 1) t.equal(await call(1000, apollo), 403);
  t.equal(await call(1000, { attribution: { project_id: 'zeus' } }), 200);
  t.equal(await call(1000, { attribution: { project_id: 'hera' } }), 403, 'by the limit of the workload');
  t.match(alerts(), [
    {
      limit_id: 'policy:monthly_usd_max:apollo',
      scope: 'project',
      scope_id: 'apollo',
      limit_usd: exactly('0.02'),
      period_start: '2026-11-01',
    },
    { limit_id: other, scope: 'workload' },
  ]);
  await inbox.until(() => inbox.of(SLACK).length === 2);
  t.same(
    inbox.of(SLACK).map(({ body }) => body['text']),
    ['Budget refuses calls: project apollo at 75.0 %', 'Budget refuses calls: workload default at 75.0 %'],
  );
});

t.test('the record and the answer name the cap, what is spent and when it begins anew, on every door, streamed or whole', async (t) => {
  const { governed, limit } = await scene(t);
  const id = await limit({ scope: 'project', scope_id: 'apollo', period: 'weekly', limit_usd: '0.02', actions: ['cap'] });
  const attribution = { project_id: 'apollo' };
  const header = ['X-GW-Project-ID', 'apollo'];
  t.equal((await governed.execute({ attribution }, { params: params(1000) })).status, 200);
  const budget = {
    ...{ kind: 'limit', limit_id: id, scope: 'project', scope_id: 'apollo', period: 'weekly' },
    ...{ limit_usd: exactly('0.02'), cost_usd: exactly('0.015'), spent_usd: exactly('0.015'), reserved_usd: exactly('0') },
    resets_at: '2026-11-30T00:00:00.000Z',
  };
  for (const stream of [false, true]) {
    const body = params(1000, { stream });
    const direct = await governed.execute({ attribution }, { params: body });
    t.match(direct, { status: 403, body: { budget } });
    t.match(await governed.gw.record(String(direct.body['record_id'])), { budget });
    const redirected = await governed.send(chat(header, undefined, body));
    const tunnelled = await governed.through('api.openai.com:443', chat(header, '/v1/chat/completions', body));
    const claude = await governed.through('api.anthropic.com:443', chat(header, '/v1/messages', { ...body, model: 'claude-3-opus' }));
    for (const answer of [redirected, tunnelled]) {
      t.equal(answer.status, 403);
      t.match(JSON.parse(answer.body.toString()), {
        budget,
        error: { message: /weekly budget limit of its project, 0\.02 USD: 0\.015 USD are spent/ },
      });
      t.match(await governed.recordOf(answer), { budget, reason_codes: ['budget_limit_exceeded'] });
    }
    t.match(JSON.parse(claude.body.toString()), { type: 'error', budget: { kind: 'limit', limit_id: id } });
  }
});

t.test('lists of calls and what explains one name the cap with its amounts', async (t) => {
  const { governed, limit } = await scene(t);
  const id = await limit({ scope: 'project', scope_id: 'apollo', period: 'weekly', limit_usd: '0.02', actions: ['cap'] });
  const attribution = { project_id: 'apollo' };
  await governed.execute({ attribution }, { params: params(1000) });
  const refused = await governed.execute({ attribution }, { params: params(1000) });
  const { keyOf } = await managedAs(governed.gw, 'default');
  const env = { GW_PORT: String(governed.gw.port), GW_MGMT_KEY: (await keyOf('default')).key };
  const told = `the weekly limit of project apollo (${id}) is 0.02 USD, 0.015 USD of it spent until 2026-11-30T00:00:00.000Z; this call may cost 0.015 USD`;
  const logged = await runGw(['logs', '--since', '2026-11-27'], { env });
  t.ok(logged.out.includes(`budget_limit_exceeded: ${told}\n`), `${logged.out}${logged.err}`);
  const explained = await runGw(['records', 'explain', String(refused.body['record_id'])], { env });
  t.ok(explained.out.includes(`It was refused for money: ${told}.\n`), `${explained.out}${explained.err}`);
});

t.test('so do the cap of one request and that of a month', async (t) => {
  const one = await scene(t, bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "0.01"}}}\n'));
  const refused = await one.governed.execute({}, { params: params(1000) });
  t.match(await one.governed.gw.record(String(refused.body['record_id'])), {
    budget: { kind: 'request', limit_usd: exactly('0.01'), cost_usd: exactly('0.015') },
  });
  t.same(one.alerts(), [], 'a cap of one request is no budget that is spent');
  const month = await scene(t, bundleOf('  budgets:\n    - {id: cap, effect: {decision: allow, budget: {monthly_usd_max: "0.01"}}}\n'));
  t.match((await month.governed.execute({}, { params: params(1000) })).body, {
    budget: { kind: 'month', scope: 'project', period: 'monthly', limit_usd: exactly('0.01'), resets_at: '2026-12-01T00:00:00.000Z' },
  });
});

t.test('a second limit of a scope and period is said where it is made and where limits are listed', async (t) => {
  const { governed } = await scene(t);
  const { manage, keyOf } = await managedAs(governed.gw, 'default');
  const make = async (body: object) => (await manage('POST', 'budgets/limits', body)).body as Json;
  const first = await make({ scope: 'project', scope_id: 'apollo', limit_usd: '250', actions: ['alert', 'cap'] });
  t.same(Object.keys(first).sort(), ['limit_id', 'status']);
  for (const other of [
    { scope: 'project', scope_id: 'apollo', period: 'daily' },
    { scope: 'project', scope_id: 'zeus' },
    { scope: 'workload', scope_id: 'default' },
    { scope: 'org' },
  ])
    t.notOk('note' in (await make({ ...other, limit_usd: '1' })), JSON.stringify(other));
  const second = await make({ scope: 'project', scope_id: 'apollo', limit_usd: '100', actions: ['cap'] });
  t.match(second, {
    status: 'created',
    note: `There is another limit of the project apollo for the same period (monthly). All of them hold; of those that cap the lowest refuses first: 100 USD (${String(second['limit_id'])}).`,
    also: [{ limit_id: first['limit_id'], effective_limit_usd: exactly('250'), actions: ['alert', 'cap'] }],
  });
  const env = { GW_PORT: String(governed.gw.port), GW_MGMT_KEY: (await keyOf('default')).key };
  const listed = (await runGw(['budgets', 'list'], { env })).out;
  t.match(listed, /^SCOPE +PERIOD +LIMIT +SPENT +USED % +SET ASIDE +ACTIONS +SINCE\nproject apollo +monthly +\$250\.00 +\$0\.00 +0\.0 /);
  t.equal(listed.match(/one of 2 limits of this scope and period: all hold, \$100\.00 is the lowest cap/g)?.length, 2, listed);
  t.equal(listed.match(/\n {2}[0-9a-f-]{36} {2}until 20\d\d-\d\d-01 00:00 UTC\n/g)?.length, 5, 'when each begins again');
  const made = async (words: string) => (await runGw(['budgets', 'create', ...words.split(' ')], { env })).out;
  t.match(
    await made('--scope org --limit-usd 7'),
    /^limit_id: .*\nstatus: +created\n\n\$7\.00 monthly \(UTC\) for org\.\nIt alerts, and refuses no call: --actions alert,cap would do both\.\nThere is another limit of the org/,
  );
  t.match(
    await made('--scope workload --scope-id default --limit-usd 7 --period daily --actions cap,alert'),
    /\n\$7\.00 daily \(UTC\) for workload default\.\nIt alerts at its thresholds, and refuses the calls that would pass it\.\n$/,
  );
  t.match(await made('--scope org --limit-usd 7 --actions='), /\nIt is a draft: it neither alerts nor refuses a call\.\n$/);
  const { limits } = (await governed.gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: readonly Json[] };
  t.same(limits[0]?.['also'], [second['limit_id']]);
  if (process.env['SHOW'] !== undefined) process.stderr.write(listed);
});

t.test('a cap below what is spent says at once that it refuses; a limit of nobody says what is missing', async (t) => {
  const { governed } = await scene(t);
  const { manage } = await managedAs(governed.gw, 'default');
  await governed.execute({}, { params: params(1000) });
  const make = async (body: object) => (await manage('POST', 'budgets/limits', body)).body as Json;
  t.match(await make({ scope: 'org', limit_usd: '0', actions: ['cap'] }), {
    note: /^It refuses calls from now on: since 2026-11-01 0[.\d]* USD are spent, and the limit is 0 USD\.$/,
  });
  t.notOk('note' in (await make({ scope: 'workload', scope_id: 'default', limit_usd: '0' })), 'what only alerts refuses nothing');
  t.match(await make({ scope: 'workload', scope_id: 'dfault', limit_usd: '1', actions: ['cap'] }), {
    status: 'created',
    note: 'No workload dfault is registered: until one is, nothing counts for this limit.',
  });
  for (const [scope, message] of [
    ['project', /^is needed for the scope project: /],
    ['workload', /^is needed for the scope workload: /],
    ['provider', /^is needed for the scope provider: /],
  ] as const)
    t.match(await make({ scope, limit_usd: '1' }), { error: { details: [{ path: 'scope_id', message }] } });
});
