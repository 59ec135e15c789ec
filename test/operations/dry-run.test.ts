// What a removal would take away is told by one mechanism, of every removal, before it is done; and nothing is done
// then.
import t from 'tap';
import { ANY_SERVICES } from '../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { codeIn, startManaged } from '../support/managed.ts';

interface Told {
  readonly dry_run: true;
  readonly counts: Readonly<Record<string, number>>;
  readonly lost: readonly Thing[];
  readonly changed: readonly Thing[];
  readonly left: readonly Thing[];
}

interface Thing {
  readonly entity: string;
  readonly object?: string;
  readonly name?: string;
  readonly values: Readonly<Record<string, string>>;
}

t.test('every operation that removes the thing in its path can be asked first, on each face', (t) => {
  const removing = OPERATIONS.filter(({ method, path }) => method === 'DELETE' && path.includes('{'));
  t.ok(removing.length > 15);
  for (const { id, inputs, tools = [] } of removing) {
    t.ok('dry_run' in (inputs(ANY_SERVICES).query?.shape ?? {}), id);
    for (const { name } of tools)
      t.match(TOOLS.tools.find((tool) => tool.name === name)?.inputSchema, { properties: { dry_run: { type: 'boolean' } } }, name);
  }
  t.end();
});

const SECRET = 'sk-planted-0123456789';

t.test(
  'a dry run tells what would be gone, with what goes with it and what stays and names it, without secrets, and changes nothing',
  async (t) => {
    const { manage, gw } = await startManaged(t);
    const made = async (method: string, path: string, body: object) => {
      const { status, body: answer } = await manage(method, path, body);
      t.ok(status < 300, `${path}: ${JSON.stringify(answer)}`);
      return answer as Readonly<Record<string, string>>;
    };
    await made('POST', 'projects', { project_id: 'apollo', display_name: 'Apollo' });
    await made('PUT', 'workloads', { workload_id: 'ci', name: 'CI', default_attribution: { project_id: 'apollo' } });
    await made('POST', 'workloads/ci/token', {});
    await made('PUT', 'ratelimit/workloads/ci', { requests_per_minute: 5 });
    await made('PUT', 'credentials', { id: 'main', provider: 'openai', mode: 'alias', secret: SECRET });
    const { id: connector = '' } = await made('POST', 'connectors', {
      name: 'Own',
      base_url: 'https://llm.example.com/v1',
      auth_mode: 'bearer',
      enabled: true,
    });
    await made('PUT', 'credentials', { id: 'own', provider: `custom:${connector}`, mode: 'alias', secret: SECRET });
    const { limit_id: limit = '' } = await made('POST', 'budgets/limits', { scope: 'workload', scope_id: 'ci', limit_usd: '20' });
    await made('POST', 'budgets/limits', { scope: 'provider', scope_id: `custom:${connector}`, limit_usd: '5' });
    const { channel_id: channel = '' } = await made('POST', 'alerts/channels', {
      name: 'Ops',
      kind: 'email',
      config: { to_addresses: ['ops@example.com'] },
    });
    const { subscription_id: subscription = '' } = await made('POST', 'alerts/subscriptions', { limit_id: limit, channel_id: channel });
    const state = async () =>
      JSON.stringify(
        await Promise.all(
          [
            'projects',
            'workloads',
            'credentials',
            'connectors',
            'budgets/limits',
            'alerts/channels',
            'alerts/subscriptions',
            'ratelimit/workloads',
            'audit',
          ].map(async (list) => (await manage('GET', list)).body),
        ),
      );
    const before = await state();
    const cases: readonly (readonly [path: string, lost: readonly string[], counts: Told['counts'], left: readonly string[]])[] = [
      [
        'workloads/ci',
        ['workload ci', 'workload_token ci', 'rate_limit_workload ci'],
        { workload: 1, workload_token: 1 },
        [`budget_limit ${limit}`],
      ],
      ['workloads/ci/token', ['workload_token ci'], { workload_token: 1 }, []],
      ['projects/apollo', ['project apollo'], { project: 1 }, ['workload ci']],
      ['credentials/main', ['credential main'], { credential: 1 }, []],
      [
        `connectors/${connector}`,
        ['custom_connector', 'credential own', 'budget_limit'],
        { custom_connector: 1, credential: 1, budget_limit: 1 },
        [],
      ],
      [`budgets/limits/${limit}`, [`budget_limit ${limit}`], { budget_limit: 1 }, []],
      [`alerts/channels/${channel}`, ['alert_channel', 'alert_subscription'], { alert_channel: 1, alert_subscription: 1 }, []],
      [`alerts/subscriptions/${subscription}`, ['alert_subscription'], { alert_subscription: 1 }, []],
    ];
    for (const [path, lost, counts, left] of cases) {
      const { status, body } = await manage('DELETE', `${path}?dry_run=true`);
      t.equal(status, 200, path);
      const told = body as Told;
      t.equal(told.dry_run, true);
      const names = told.lost.map(({ entity, object }) => `${entity} ${object}`);
      for (const one of lost)
        t.ok(
          names.some((name) => name.startsWith(one)),
          `${path}: ${one} in ${names.join()}`,
        );
      t.match(told.counts, counts, path);
      t.strictSame(
        told.left.map(({ entity, object }) => `${entity} ${object}`),
        left,
        path,
      );
      t.notMatch(JSON.stringify(body), SECRET);
    }
    t.match((await manage('DELETE', 'workloads/ci?dry_run=true')).body, {
      lost: [{ name: 'CI', values: { 'default_attribution.project_id': 'apollo' } }],
    });
    t.equal(await state(), before, 'nothing is changed, and the trail has no entry');
    t.equal(codeIn(await manage('DELETE', 'workloads/nobody?dry_run=true')), 'not_found');
    t.equal(codeIn(await manage('DELETE', 'workloads/default?dry_run=true')), 'conflict');
    t.equal((await manage('DELETE', 'workloads/ci?dry_run=maybe')).status, 400);
    t.equal(
      codeIn(await manage('DELETE', `alerts/channels/${channel}?dry_run=true`, undefined, { 'if-match': '"old"' })),
      'precondition_failed',
    );
    const key = (await gw.admin('POST', '/v1/admin/api-keys', { org_id: 'acme', name: 'k' })).body as { id: string };
    for (const again of ['at first', 'and still not revoked'])
      t.match(
        (await gw.admin('DELETE', `/v1/admin/api-keys/${key.id}?dry_run=true`)).body,
        { lost: [], changed: [{ entity: 'api_key', object: key.id, values: { revoked_at: String } }] },
        again,
      );
    t.equal((await manage('DELETE', 'workloads/ci')).status, 200, 'and it is done when it is meant');
  },
);

t.test('a key of a session that is only tried to be revoked stays', async (t) => {
  const { gw } = await startManaged(t);
  const session = { program: 'gw' };
  const made = (await gw.admin('POST', '/v1/admin/mgmt-keys', { org_id: 'acme', name: 's', kind: 'management', scopes: ['read'], session }))
    .body as { id: string };
  const listed = async () =>
    ((await gw.admin('GET', '/v1/admin/mgmt-keys')).body as { keys: readonly { id: string }[] }).keys.some(({ id }) => id === made.id);
  t.match((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${made.id}?dry_run=true`)).body, { dry_run: true, counts: { management_key: 1 } });
  t.equal(await listed(), true);
  t.equal((await gw.admin('DELETE', `/v1/admin/mgmt-keys/${made.id}`)).status, 200);
  t.equal(await listed(), false);
});
