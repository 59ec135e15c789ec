// A provider is named in a filter as it is named anywhere: by its id, neutral name or an alias, in any letter case (decision 1).
import t from 'tap';
import { TOOLS } from '../../src/operations/tool-table.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';

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
