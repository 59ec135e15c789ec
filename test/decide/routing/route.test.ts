import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { candidateConnectors, chooseConnector } from '../../../src/decide/routing/choose-connector.ts';

const catalogue = loadCatalogue();
const question = { actionType: 'ai.infer', targetHost: 'api.openai.com' };

t.test('routing follows the specified precedence', async (t) => {
  const map = new Map([['ai.embed', 'cohere']]);
  const table = [
    ['host', { ...question }, 'openai', 'target_host'],
    ['fallback', { ...question, targetHost: 'example.com' }, 'generic_http', 'fallback'],
    ['action type, whatever the host', { ...question, actionType: 'ai.embed' }, 'cohere', 'action_type'],
    ['policy before action type', { ...question, actionType: 'ai.embed', selectConnector: 'provider_b' }, 'anthropic', 'policy'],
    ['hint before policy', { ...question, connectorHint: 'mistral', selectConnector: 'anthropic' }, 'mistral', 'hint'],
    ['a neutral hint', { ...question, connectorHint: 'provider_e' }, 'cohere', 'hint'],
    ['a hint before an action type', { ...question, actionType: 'ai.embed', connectorHint: 'mistral' }, 'mistral', 'hint'],
    ['generic by hint', { ...question, connectorHint: 'generic_http' }, 'generic_http', 'hint'],
    ['no action type, no mapping', { targetHost: 'api.openai.com' }, 'openai', 'target_host'],
  ] as const;
  for (const [name, asked, connectorId, chosenBy] of table) {
    const made = chooseConnector(catalogue, asked, map);
    t.strictSame([made.connectorId, made.chosenBy], [connectorId, chosenBy], name);
    const hosted = asked.targetHost === 'example.com' ? undefined : 'openai';
    t.equal(made.provider?.id, connectorId === 'generic_http' ? hosted : connectorId, `${name}: what the call means`);
  }
});

t.test('the connector that is taken fixes the host', async (t) => {
  t.equal(chooseConnector(catalogue, { ...question, connectorHint: 'anthropic' }).targetHost, 'api.anthropic.com');
  t.equal(
    chooseConnector(catalogue, { ...question, targetHost: 'eu.api.openai.com', connectorHint: 'openai' }).targetHost,
    'eu.api.openai.com',
  );
  t.equal(
    chooseConnector(catalogue, { ...question, targetHost: 'r.openai.azure.com', connectorHint: 'azure' }).targetHost,
    'r.openai.azure.com',
  );
  t.equal(chooseConnector(catalogue, { ...question, targetHost: 'example.com', connectorHint: 'generic' }).targetHost, 'example.com');
});

t.test("an unknown hint, and a hosted variant without its host, are the caller's mistake", async (t) => {
  for (const connectorHint of ['nobody', '', '__proto__', 'custom:x']) {
    t.throws(
      () => chooseConnector(catalogue, { ...question, connectorHint }),
      { code: 'invalid_request', details: [{ path: 'connector_hint' }] },
      connectorHint,
    );
  }
  t.throws(() => chooseConnector(catalogue, { ...question, connectorHint: 'azure_openai' }), {
    code: 'invalid_request',
    details: [{ path: 'action.target_host' }],
  });
});

t.test('a connector that policy names and nobody has is not silently another one', async (t) => {
  t.throws(() => chooseConnector(catalogue, { ...question, selectConnector: 'nobody' }), { code: 'internal' });
});

t.test("candidates are the chosen connector, the host's own and the fallback, each once", async (t) => {
  t.strictSame(candidateConnectors(catalogue, chooseConnector(catalogue, question)), ['openai', 'generic_http']);
  t.strictSame(candidateConnectors(catalogue, chooseConnector(catalogue, { ...question, targetHost: 'example.com' })), ['generic_http']);
  t.strictSame(candidateConnectors(catalogue, chooseConnector(catalogue, { ...question, connectorHint: 'generic_http' })), [
    'generic_http',
    'openai',
  ]);
});
