// A process that is killed around each write of an alert and of its delivery: no alert is lost, and none comes twice
// but the one that was under way (decision 11.1).
import t from 'tap';
import { eventually } from '../support/child.ts';
import { gatewayEnvironment, launchGateway, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { killedAtWrite } from '../support/killed-at-write.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

const HOST = 'api.openai.com';
const SLACK = 'hooks.slack.com';
type Json = Record<string, unknown>;

async function spend(port: number): Promise<void> {
  const action = {
    type: 'ai.infer',
    method: 'POST',
    target_host: HOST,
    params: { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 1_000 },
  };
  const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k', action };
  await fetch(`http://127.0.0.1:${port}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) });
}

/** The text that stands in the write, and what that write is. */
const MOMENTS = [
  ['budget_alert_posted', 'the record with its alert'],
  ['alert_history', 'the history of the delivery'],
] as const;

for (const [text, what] of MOMENTS) {
  for (const when of ['before', 'after'] as const) {
    // Holds: alerts-are-sent-once
    t.test(`killed ${when} ${what} is written, the alert arrives all the same`, async (t) => {
      const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
      const upstream = await startTlsUpstream({
        hosts: [HOST, SLACK],
        handler: inbox.handler(
          [SLACK],
          (_request, response, whole) =>
            void whole.then(() =>
              response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":0,"completion_tokens":1000}}'),
            ),
        ),
      });
      t.teardown(() => upstream.close());
      const env = gatewayEnvironment(t, { bundle: ALLOW_ALL, env: { ...WHOLE_MONTH, ...towards(t, upstream, [HOST, SLACK]) } });
      const first = await startGatewayWith(t, env);
      const made = await first.admin('POST', '/v1/admin/mgmt-keys', {
        org_id: 'default',
        name: 'k',
        kind: 'management',
        scopes: ['read', 'write'],
      });
      const { key } = made.body as { key: string };
      const manage = async (port: number, method: string, path: string, body?: object): Promise<Json> => {
        const response = await fetch(`http://127.0.0.1:${port}/mgmt/v1/${path}`, {
          method,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return (await response.json()) as Json;
      };
      const limit = await first.admin('POST', '/v1/admin/budgets/limits', {
        org_id: 'default',
        scope: 'org',
        limit_usd: '0.02',
        warning_threshold_pct: 50,
      });
      const channel = await manage(first.port, 'POST', 'alerts/channels', {
        name: 's',
        kind: 'slack',
        config: { webhook_url: `https://${SLACK}/x` },
      });
      await manage(first.port, 'POST', 'alerts/subscriptions', {
        channel_id: channel['channel_id'],
        limit_id: (limit.body as Json)['limit_id'],
      });
      first.child.kill('SIGKILL');
      await first.child.ended;

      const killed = await launchGateway(t, env, { nodeOptions: ['--import', killedAtWrite(text, 1, when)] });
      spend(killed.port).catch(() => undefined);
      t.equal((await killed.child.ended).signal, 'SIGKILL');

      const last = await startGatewayWith(t, env);
      const isThere = async (): Promise<true | undefined> =>
        ((await manage(last.port, 'GET', 'alerts/history'))['data'] as readonly Json[]).length > 0 ? true : undefined;
      // A record that was lost with the process cost nothing that anybody knows: the next call does.
      if (text === 'budget_alert_posted' && when === 'before') await spend(last.port);
      await eventually('the alert is in the history', isThere);
      const history = (await manage(last.port, 'GET', 'alerts/history'))['data'] as readonly Json[];
      t.match(history, [{ level: 'warning', outcome: 'delivered' }]);
      t.equal(history.length, 1);
      const repeats = text === 'alert_history' && when === 'before' ? 2 : 1;
      t.equal(inbox.received.length, repeats);
      last.child.kill('SIGKILL');
      await last.child.ended;
    });
  }
}
