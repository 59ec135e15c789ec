// What every refusal says to do next: in a member for programs, and in the error that a provider's SDK shows.
import t from 'tap';
import { stepAfter } from '../../src/base/model/next-step.ts';
import { REASON_CODES, wayOf } from '../../src/base/model/reason-codes.ts';
import { bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { RESPONSES, scene } from '../support/metered-sockets.ts';

interface Next {
  readonly request: string;
  readonly message: string;
  readonly retry_after?: number;
  readonly wait_url?: string;
}

const when = (word: string) => `when: {field: context.action.params.user, equals: ${word}}`;
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, ${when('deny')}, effect: {decision: deny, reason: not this one}}
    - {id: coded, ${when('coded')}, effect: {decision: deny, reason: not this one either, reason_codes: [our_own]}}
    - {id: slow, ${when('slow')}, effect: {decision: rate_limit, reason: slow down, rate_limit: {requests_per_minute: 1}}}
    - {id: named, ${when('named')}, effect: {enforce_attribution: {require: [project_id]}}}
  budgets:
    - {id: dear, ${when('dear')}, effect: {decision: allow, budget: {usd_max: "0.0000001"}}}
`);

/** What calls of each user are told, on all doors alike. */
const TOLD: Readonly<Record<string, { readonly request: string; readonly message: RegExp; readonly again?: true }>> = {
  deny: { request: 'change', message: /change what the reason names/ },
  coded: { request: 'change', message: /change what the reason names/ },
  slow: { request: 'repeat', message: /again in \d+ s\.$/, again: true },
  named: { request: 'change', message: /X-GW-Project-ID/ },
  dear: { request: 'change', message: /cheaper model/ },
};

/** The same in the words of other providers: where their SDKs look for the text of an error. */
const FORMS: Readonly<Record<string, { readonly path: string; readonly body: (user: string) => object }>> = {
  openai: { path: '/proxy/openai/v1/chat/completions', body: (user) => ({ ...CHAT, user }) },
  anthropic: {
    path: '/proxy/anthropic/v1/messages',
    body: (user) => ({ model: 'claude-haiku-4-5', max_tokens: 100, messages: CHAT.messages, user }),
  },
  mistral: { path: '/proxy/mistral/v1/chat/completions', body: (user) => ({ ...CHAT, model: 'mistral-small-latest', user }) },
};

function textIn(body: Readonly<Record<string, unknown>>): string {
  const error = body['error'] as { readonly message?: string } | undefined;
  return String(error?.message ?? body['message']);
}

t.test('a refusal says what to do next, on every door and in the form of each provider', async (t) => {
  const { execute, send, through, recordOf } = await startGoverned(t, { bundle: BUNDLE });
  const used = new Set<string>();
  t.equal((await execute({}, { params: { ...CHAT, user: 'slow' } })).status, 200, 'the one call of its minute');
  for (const [user, { request, message, again }] of Object.entries(TOLD)) {
    const isTold = (next: unknown, name: string): Next => {
      const said = next as Next;
      t.match(said, { request, message }, name);
      t.equal(said.retry_after !== undefined, again === true, `${name}: a time is named where time alone lets it pass`);
      return said;
    };
    const direct = await execute({}, { params: { ...CHAT, user } });
    isTold(direct.body['next'], `${user}, structured`);
    for (const [provider, { path, body }] of Object.entries(FORMS)) {
      const answer = await send(chat([], path, body(user)));
      const text = JSON.parse(answer.body.toString()) as Readonly<Record<string, unknown>>;
      const { message: sentence } = isTold(text['next'], `${user}, ${provider}`);
      t.ok(textIn(text).endsWith(` ${sentence}`), `${provider}: ${textIn(text)}`);
      used.add(String((await recordOf(answer))['decision']));
    }
    const tunnelled = await through('api.openai.com:443', chat([], '/v1/chat/completions', { ...CHAT, user }));
    isTold((JSON.parse(tunnelled.body.toString()) as { next: unknown }).next, `${user}, CONNECT`);
  }
  t.same([...used].sort(), ['deny', 'rate_limit', 'require_attribution']);
});

t.test('a replay of a refusal names no time, which was that of the first call', async (t) => {
  const { execute } = await startGoverned(t, { bundle: BUNDLE });
  const call = () => execute({ idempotency_key: 'k' }, { params: { ...CHAT, user: 'deny' } });
  const [first, second] = [await call(), await call()];
  t.equal(second.headers.get('idempotent-replayed'), 'true');
  t.same(second.body['next'], first.body['next']);
});

t.test('what was denied, and what may have been executed, says so in the error of the provider too', async (t) => {
  const bundle = bundleOf('  targets:\n    - {id: ask, effect: {decision: require_approval, reason: ask first}}\n');
  const { gw, send } = await startGoverned(t, { bundle });
  await send(chat());
  const { items } = (await gw.admin('GET', '/v1/admin/approvals?status=pending')).body as { items: { approval_id: string }[] };
  await gw.admin('POST', `/v1/admin/approvals/${items[0]?.approval_id}/deny`, { decided_by: 'olga', reason: 'no' });
  const denied = JSON.parse((await send(chat())).body.toString()) as { readonly next: Next } & Readonly<Record<string, unknown>>;
  t.match(denied.next, { request: 'change', message: /It was denied/ });
  t.ok(textIn(denied).endsWith(denied.next.message), textIn(denied));
  for (const code of ['upstream_timeout', 'upstream_protocol', 'internal'])
    t.match(stepAfter({ decision: 'error', reasonCodes: [code] }), { request: 'change', message: /may have executed it/ }, code);
});

t.test('a caller in quarantine, and one whose calls are stopped, is sent to a person', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: odd, ${when('odd')}, effect: {decision: quarantine, reason: odd}}
`);
  const { gw, execute, send } = await startGoverned(t, { bundle });
  const person = { request: 'repeat', message: /tell whoever runs this gateway/ };
  t.match((await execute({ caller_id: 'eve' }, { params: { ...CHAT, user: 'odd' } })).body['next'], person);
  t.match((await execute({ caller_id: 'eve' })).body['next'], person);
  const scope = { provider: 'openai' };
  const stop = await gw.admin('POST', '/v1/admin/stop', { scope, reason: 'costs run away', confirm: 'stop' });
  t.match(String(stop.status), /^20/);
  t.match((await execute()).body['next'], person);
  t.match((JSON.parse((await send(chat())).body.toString()) as { next: unknown }).next, person);
});

t.test('a call on a WebSocket that is refused is told in its error event', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, when: {field: action.params.model, equals: gpt-4}, effect: {decision: deny, reason: not for you}}
`);
  const { open } = await scene(t, { bundle });
  const client = await open(RESPONSES);
  const told = await client.say({ type: 'response.create', model: 'gpt-4', input: 'x' }, 'error');
  t.match(told, { error: { message: /not for you\. Do not send it again as it is/ } });
});

t.test('every code that explains a refusal has a way on', (t) => {
  for (const [code, { decision }] of Object.entries(REASON_CODES)) {
    if (decision === 'allow') continue;
    const step = stepAfter({ decision, reasonCodes: [code] });
    t.match(step, { request: /^(repeat|change)$/, message: /^\S.*\.$/ }, code);
    const isLater = wayOf(decision, [code]) === 'later';
    t.equal(step.retry_after !== undefined, isLater, `${code}: where it is a matter of time, a time is named`);
    t.match(stepAfter({ decision, reasonCodes: [code], retryAfterSeconds: 7 }), { retry_after: 7, message: / in 7 s\.$/ }, code);
  }
  t.match(stepAfter({ decision: 'deny', reasonCodes: ['our_own', 'byok_disabled'] }), { request: 'repeat' }, "beside a rule's own codes");
  t.match(stepAfter({ decision: 'error', reasonCodes: ['shutting_down'] }), { retry_after: 1 }, 'as its Retry-After says');
  const unbound = stepAfter({ decision: 'require_approval', reasonCodes: ['approval_required', 'approval_not_possible'] });
  t.match(unbound, { request: 'change' }, 'a body that cannot be bound never can');
  t.match(stepAfter({ decision: 'quarantine', reasonCodes: ['budget_limit_exceeded'] }), { request: 'repeat' });
  t.end();
});
