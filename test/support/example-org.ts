import { buttonValue } from '../../src/base/lib/slack-signature.ts';
import { runningFrom, TEST_DAY } from './fake-clock.ts';
import { bundleOf, CHAT, startGoverned } from './governed.ts';
import { Inbox } from './inbox.ts';
import { managedOf } from './managed.ts';
import { press, SIGNING_SECRET } from './slack.ts';
import type { HasTeardown } from './temp-dir.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large-jobs
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: large jobs are agreed on first}
    - id: odd-callers
      when: {field: context.action.params.user, equals: odd}
      effect: {decision: quarantine, reason: odd behaviour}
`);
const ORG = 'acme';
const CHAT_HOST = 'hooks.slack.com';

/** Operations without an example yet; empty when everything has one. */
export const NO_EXAMPLE: readonly string[] = [];
/** What the examples hand over, and nobody may read. */
export const SECRETS: readonly string[] = [
  'sk-EXAMPLE-secret-0123456789',
  'EXAMPLE-secret',
  'EXAMPLE-token-secret-0123456789',
  'whsec_RVhBTVBMRS1zZWNyZXQtMDEyMzQ1Njc4OQ==',
];
/** The answer to whoever made it shows it this once (specification, "Management API"). */
export const TELLS_SECRETS: readonly string[] = ['mgmt.keys.create', 'mgmt.alerts.channels.create', 'mgmt.exports.create'];

export type Asker = 'own' | 'reader' | 'other' | 'nobody';

export interface ExampleAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Where every org sees the same, or what the path names is no object of an org's. */
export function isOfEveryOrg(id: string): boolean {
  // Each org may have a rule of the same id, and makes one where it has none.
  return /^mgmt\.(?:pricing\.|nodes\.|providers\.|attribution\.label$|policies\.rules\.(?:put|get|remove)$)/.test(id);
}

/** A gateway on which the examples succeed, and whoever asks them. */
export async function exampleOrg(t: HasTeardown) {
  const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
  const handler = inbox.handler([CHAT_HOST], (_request, response, whole) => {
    void whole.then(() => {
      response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":1100,"completion_tokens":700}}');
    });
  });
  // The day of the examples: answers have members that are named by days.
  const clock = runningFrom(TEST_DAY);
  const { gw, execute } = await startGoverned(t, {
    clock,
    bundle: BUNDLE,
    hosts: [CHAT_HOST],
    handler,
    env: { GW_NODE_ID: 'node-1', GW_SLACK_SIGNING_SECRET: SIGNING_SECRET },
  });
  const { keyOf } = await managedOf(gw);
  const keys = {
    own: (await keyOf(ORG)).key,
    reader: (await keyOf(ORG, ['read'])).key,
    other: (await keyOf('globex')).key,
  };
  const send = async (asker: Asker, method: string, path: string, body?: unknown): Promise<ExampleAnswer> => {
    const response = await fetch(gw.url + path, {
      method,
      headers: {
        ...(asker === 'nobody' ? {} : { authorization: `Bearer ${keys[asker]}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : (JSON.parse(text) as unknown) };
  };
  const call = async (caller: string, params: object, status: number): Promise<Readonly<Record<string, unknown>>> => {
    const attribution = { project_id: 'support', customer_id: 'customer-1', account_id: 'account-1', labels: { team: 'red' } };
    const answer = await execute({ org_id: ORG, caller_id: caller, attribution }, { params: { ...CHAT, model: 'gpt-4o', ...params } });
    if (answer.status !== status) throw new Error(`${answer.status} ${answer.text}`);
    return answer.body;
  };
  /** A user of a chat has pressed a button, and says who he is. */
  const bindChatUser = async (approvalId: string): Promise<void> => {
    const button = { action_id: 'gw_approve', value: buttonValue(SIGNING_SECRET, approvalId, 'approved') };
    await press(gw.url, button, { at: clock.now() });
    const linkIn = (): RegExpExecArray | null => /chat-users\/([^#"|]+)#([\w-]+)\|/.exec(inbox.received.at(-1)?.text ?? '');
    await inbox.until(() => linkIn() !== null);
    const [, id = '', code = ''] = linkIn() ?? [];
    const bound = await send('own', 'POST', `/mgmt/v1/chat-users/${id}/bind`, { code, confirm: true });
    if (bound.status !== 200) throw new Error(JSON.stringify(bound.body));
  };
  /** Somebody has signed in to the console. */
  const signIn = async (): Promise<void> => {
    const response = await fetch(`${gw.url}/v1/console/sessions`, {
      method: 'POST',
      headers: { 'gw-console': '1', 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0' },
      body: JSON.stringify({ secret: keys.own }),
    });
    if (response.status !== 201) throw new Error(await response.text());
  };
  /** The calls that examples speak of, and what else they need. */
  const setUp = async (): Promise<void> => {
    await signIn();
    await call('anna', {}, 200);
    await bindChatUser(String((await call('ben', { user: 'ask' }, 202))['approval_id']));
    await call('ben', { user: 'ask', max_tokens: 9 }, 202);
    await call('mallory', { user: 'odd' }, 403);
  };
  return { gw, send, setUp, keys };
}
