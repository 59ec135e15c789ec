// A provider is named in a filter as it is named anywhere: by its id, neutral name or an alias, in any letter case
// (decision 1).
import t from 'tap';
import { z } from 'zod';
import { jsonSchema } from '../../src/operations/json-schema.ts';
import { ANY_SERVICES } from '../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { ALLOW_ALL, bundleOf, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';

const BY_MODEL = `  targets:
    - {id: some, when: {field: action.params.model, in: [gpt-4o, o3]}, effect: {decision: allow}}
  risk:
    - {id: dear, when: {field: action.params.model, equals: o3}, effect: {decision: deny, reason_codes: [late, too_dear]}}
`;

interface Listed {
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly next_cursor: string | null;
}

t.test('records and prices of a provider', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { manage } = await managedOf(governed.gw);
  const sent = [
    await governed.execute({ org_id: 'acme' }, { params: { model: 'gpt-4o', messages: [] } }),
    await governed.execute({ org_id: 'acme' }, { target_host: 'api.mistral.ai', params: { model: 'mistral-small', messages: [] } }),
  ];
  t.same(
    sent.map(({ status }) => status),
    [200, 200],
  );
  const list = async (path: string) => {
    const answer = await manage('GET', path);
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    return answer.body as Listed;
  };
  for (const name of ['openai', 'provider_a', 'PROVIDER_A', 'OpenAI']) {
    const { data } = await list(`records?provider=${name}`);
    t.strictSame(
      data.map((row) => row['provider']),
      ['openai'],
      name,
    );
    const prices = (await list(`pricing?provider=${name}&limit=5`)).data;
    t.ok(prices.length > 0 && prices.every((row) => row['provider'] === 'openai'), `prices of ${name}`);
  }
  t.strictSame(
    (await list('records?provider=MistralAI')).data.map((row) => row['provider']),
    ['mistral'],
    'an alias',
  );
  t.strictSame((await list('records?provider=provider_b')).data, []);
  t.strictSame((await list('records?provider=nobody')).data, [], 'a name that nobody has finds nothing');
  t.equal((await list('records?target_host=API.OpenAI.com')).data.length, 1);
  t.equal((await list('records?model=GPT-4o')).data.length, 1);
  t.equal((await list('records?action_type=AI.Infer')).data.length, 2);
  const first = await list('records?limit=1');
  t.equal((await list(`records?limit=1&cursor=${first.next_cursor ?? ''}`)).data.length, 1);
  const priced = await list('pricing?provider=provider_a&limit=1');
  t.equal((await list(`pricing?provider=OPENAI&limit=1&cursor=${priced.next_cursor ?? ''}`)).data.length, 1, 'one provider, one cursor');
});

t.test('tools ask for the same', (t) => {
  t.match(
    TOOLS.requestOf('list_records', { provider: 'provider_a' }, () => 0),
    { path: '/mgmt/v1/records?provider=provider_a' },
  );
  for (const name of ['list_records', 'list_provider_pricing']) {
    const { inputSchema } = TOOLS.tools.find((tool) => tool.name === name) ?? { inputSchema: {} };
    t.match(inputSchema, { properties: { provider: { type: 'string' } } }, name);
  }
  t.end();
});

t.test('records by reason code and by address of the caller, of the own org alone', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: bundleOf(BY_MODEL) });
  const managed = await managedOf(gw);
  const ask = (model: string, org: string) => execute({ org_id: org }, { params: { model, messages: [] } });
  for (const [model, org] of [
    ['gpt-4o', 'acme'],
    ['o3', 'acme'],
    ['o3', 'globex'],
    ['gpt-4', 'acme'],
  ] as const)
    await ask(model, org);
  const found = async (manage: typeof managed.manage, query: string) => {
    const { status, body } = await manage('GET', `records?${query}`);
    t.equal(status, 200, `${query}: ${JSON.stringify(body)}`);
    return (body as Listed).data.map((record) => record['model']);
  };
  const other = managed.with((await managed.keyOf('globex')).key);
  t.strictSame(await found(managed.manage, 'reason_code=too_dear'), ['o3'], 'one of several codes');
  t.strictSame(await found(managed.manage, 'reason_code=too_dear,late'), [], 'whole');
  t.strictSame(await found(managed.manage, 'reason_code=too'), []);
  t.strictSame(await found(managed.manage, 'reason_code=target_not_allowed'), ['gpt-4']);
  t.strictSame(await found(managed.manage, 'reason_code=default%20deny'), [], 'a code that nobody has');
  t.strictSame(await found(other, 'reason_code=too_dear'), ['o3']);
  t.strictSame(await found(managed.manage, 'caller_ip=127.0.0.1'), ['gpt-4', 'o3', 'gpt-4o']);
  t.strictSame(await found(managed.manage, 'caller_ip=::ffff:127.0.0.1&reason_code=late'), ['o3'], 'however the address is written');
  t.strictSame(await found(managed.manage, 'caller_ip=127.0.0.2'), []);
  t.strictSame(await found(other, 'caller_ip=127.0.0.1'), ['o3']);
  t.match(await managed.manage('GET', 'records?caller_ip=here'), {
    status: 400,
    body: { error: { details: [{ path: 'caller_ip', message: /one IP address such as/ }] } },
  });
});

t.test('add-ons of a provider are those that switch it, whatever their ids look like', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const { manage } = await managedOf(gw);
  const all = ((await manage('GET', 'providers')).body as Listed).data;
  const providers = new Set(all.map((row) => row['provider']));
  t.ok(providers.has('openai') && providers.has(undefined));
  for (const provider of providers) {
    if (provider === undefined) continue;
    const { data } = (await manage('GET', `providers?provider=${String(provider)}`)).body as Listed;
    t.strictSame(
      data,
      all.filter((row) => row['provider'] === provider),
      String(provider),
    );
  }
  const preset = all.find(({ kind }) => kind === 'policy_preset')?.['addon_id'];
  t.match((await manage('GET', `providers?provider=${String(preset)}`)).body, { data: [{ addon_id: preset }] });
  t.strictSame(((await manage('GET', 'providers?provider=byok-openai')).body as Listed).data, [], 'a part of an id is no provider');
});

/**
 * Ids that the gateway makes or requires, and texts that have a form of their own, such as times: no blank is in one,
 * or not every text is one.
 */
const FORMED =
  /^(?:org_id|approval_id|limit_id|channel_id|subscription_id|destination_id|operation|cursor|page_token|from|to|tz|period|last|by|caller_ip)$/;

t.test('names with blanks and letters of any language are values of every filter that takes text', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const { manage, gw: gateway } = await managedOf(gw);
  const refused: string[] = [];
  let asked = 0;
  for (const { method, path, inputs, scope } of OPERATIONS) {
    if (method !== 'GET' || scope === 'org' || path.includes('{')) continue;
    const { properties = {}, required = [] } = jsonSchema(inputs(ANY_SERVICES).query ?? z.object({}), 'input');
    for (const [name, part] of Object.entries(properties)) {
      const isText = typeof part === 'object' && part.type === 'string' && part.enum === undefined && part.format === undefined;
      if (!isText || FORMED.test(name) || required.some((one) => one !== name)) continue;
      asked += 1;
      const value = name === 'label' ? 'Wo bist du=Büro Süd 東京' : 'Büro Süd 東京';
      const url = `${path}?${new URLSearchParams({ [name]: value, ...(name === 'label_value' ? { label_key: 'Wo bist du' } : {}) })}`;
      const { status } = scope === 'admin' ? await gateway.admin('GET', url) : await manage('GET', url);
      if (status === 400) refused.push(`${path}?${name}`);
    }
  }
  t.ok(asked > 20, `${asked} filters`);
  t.strictSame(refused, []);
});

t.test('a budget limit of a project whose name has a blank is found by that', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const { manage } = await managedOf(gw);
  const name = 'Büro Süd';
  t.equal((await manage('POST', 'budgets/limits', { scope: 'project', scope_id: name, limit_usd: '5' })).status, 201);
  const { data } = (await manage('GET', `budgets/limits?scope=project&scope_id=${encodeURIComponent(name)}`)).body as Listed;
  t.match(data, [{ scope_id: name }]);
});
