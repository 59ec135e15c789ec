// What comes of a rule that matches a model which a call names beside its own: its effects, its mutations, what the
// call may cost, and what the tools of policy say of it.
import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { PolicyComparison } from '../../src/policy-tools/diff.ts';
import { explain, explainRecorded } from '../../src/policy-tools/explain.ts';
import { factsOfRequest, readCall } from '../../src/policy-tools/given-request.ts';
import { recordedRequest } from '../../src/policy-tools/recorded-request.ts';
import { renderExplanation } from '../../src/policy-tools/render-explanation.ts';
import { paintFor } from '../../src/policy-tools/render-problem.ts';
import { policyOf } from '../decide/policy/policy-facts.ts';
import { exactly } from '../support/exactly.ts';
import {
  ALLOW,
  ANTHROPIC,
  chatBody,
  direct,
  GEMINI,
  HOSTS,
  input,
  LISTED,
  NAMED,
  NO_EVIL,
  NOT_UNDERSTOOD,
  named,
  OPENAI,
  OPENROUTER,
  proxied,
  titleOf,
} from '../support/further-models.ts';
import { bundleOf, chat, startGoverned } from '../support/governed.ts';

t.test('the model that decided is told to the caller and kept in the record', async (t) => {
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const call = { target_host: OPENROUTER, target_path: '/api/v1/chat/completions', params: { ...chatBody, models: ['good', 'evil'] } };
  const message = 'Policy was asked about the model "evil", which this call also names.';
  t.match((await governed.execute({}, call)).body, { reason: 'no evil', details: [{ path: 'action.models', message }] });
  const answer = await governed.through(`${OPENROUTER}:443`, chat([], call.target_path, call.params));
  t.match(JSON.parse(answer.body.toString()), { error: { message: new RegExp(`no evil. ${message}`) } });
  t.match(await governed.recordOf(answer), {
    decision: 'deny',
    model: 'good',
    reason: 'no evil',
    policy_trace: {
      matched_rule_ids: ['all', 'evil'],
      attributes: { 'context.action.params.model': 'good', 'context.action.models': ['good', 'evil'], decided_model: 'evil' },
    },
  });
  const allowed = await governed.through(
    `${OPENROUTER}:443`,
    chat([], '/api/v1/chat/completions', { ...chatBody, models: ['good', 'fine'] }),
  );
  const { policy_trace: trace } = (await governed.recordOf(allowed)) as { policy_trace: { attributes: object } };
  t.same(trace.attributes, { 'context.action.params.model': 'good', 'context.action.models': ['good', 'fine'] });
  const plain = await governed.through(`${OPENROUTER}:443`, chat([], '/api/v1/chat/completions', chatBody));
  t.notMatch(JSON.stringify(await governed.recordOf(plain)), /action\.models/, 'of a call that names one model nothing more is kept');
});

t.test('context.action.models has them all', async (t) => {
  const rules = `${ALLOW}  targets:
    - {id: any, when: {field: context.action.models, in: [evil]}, effect: {decision: deny, reason_codes: [any]}}
    - {id: many, when: {all: [{field: action.models, contains: fine}, {field: action.params.model, equals: good}]}, effect: {decision: deny, reason_codes: [both]}}
`;
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules) });
  const path = '/api/v1/chat/completions';
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['any']);
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, model: 'evil' })), ['any'], 'also the only one');
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['fine'] })), ['both']);
  t.equal(await proxied(governed, named(OPENROUTER, path, { ...chatBody, models: ['other'] })), 'sent');
  t.same(await proxied(governed, named(OPENROUTER, path, { ...chatBody, preset: 'x' })), NOT_UNDERSTOOD, 'what is hidden is not missing');
  const gemini = named(GEMINI, '/v1beta/models/evil:generateContent', { contents: [] });
  t.same(await proxied(governed, gemini), ['any'], 'of the path');
});

t.test('effects of rules that match a further model hold for the call', async (t) => {
  const rules = (effect: string) =>
    `${ALLOW}  budgets:\n    - {id: dear, when: {field: action.params.model, equals: evil}, effect: {${effect}}}\n`;
  const start = (effect: string) => startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules(effect)) });
  const two = named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, max_tokens: 1000, models: ['evil'] });
  const one = named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, max_tokens: 1000 });
  const capped = await start('budget: {usd_max: "0.01"}');
  t.same(await proxied(capped, two), ['budget_usd_max_exceeded'], 'a cap');
  t.equal(await proxied(capped, one), 'sent');
  const limited = await start('rate_limit: {requests_per_minute: 1}');
  t.equal(await proxied(limited, two), 'sent');
  t.match(await proxied(limited, two), ['rate_limited'], 'a rate limit');
  t.equal(await proxied(limited, one), 'sent');
  const attributed = await start('enforce_attribution: {require: [customer_id]}');
  t.match(await proxied(attributed, two), ['missing:customer_id'], 'attribution');
  t.equal(await proxied(attributed, one), 'sent');
  const approved = await start('decision: require_approval');
  t.match(await proxied(approved, two), ['approval_required'], 'an approval');
  t.equal(await proxied(approved, one), 'sent');
  const held = await start('decision: quarantine');
  t.match(await proxied(held, two), ['quarantined'], 'quarantine');
});

t.test('a mutation lets no further model through that it was made for', async (t) => {
  const path = '/api/v1/chat/completions';
  const start = (rules: string) => startGoverned(t, { hosts: HOSTS, bundle: bundleOf(`${ALLOW}  transforms:\n${rules}`) });
  const dear = await start(
    '    - {id: a, when: {field: action.params.model, equals: evil}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: good}]}}\n',
  );
  t.same(await proxied(dear, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['mutation_not_applicable']);
  t.same(
    await proxied(dear, named(OPENROUTER, path, { ...chatBody, model: 'evil', models: ['evil', 'good'] })),
    ['mutation_not_applicable'],
    'its own once more',
  );
  t.same(await proxied(dear, named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation', model: 'evil' }] })), [
    'mutation_not_applicable',
  ]);
  t.equal(await proxied(dear, named(OPENROUTER, path, { ...chatBody, model: 'evil', models: ['good', 'fine'] })), 'sent');
  t.match(
    JSON.parse(dear.upstream.requests.at(-1)?.body.toString() ?? ''),
    { model: 'good', models: ['good', 'fine'] },
    'what is allowed is not touched',
  );
  const everywhere = await start('    - {id: a, effect: {mutations: [{key: action.params.model, value: small}]}}\n');
  t.same(await proxied(everywhere, named(OPENROUTER, path, { ...chatBody, models: ['evil'] })), ['mutation_not_applicable']);
  t.equal(await proxied(everywhere, named(OPENROUTER, path, { ...chatBody, models: ['small'] })), 'sent', 'the model that it is to be');
  const shorter = await start('    - {id: a, effect: {mutations: [{key: action.params.max_tokens, value: 7}]}}\n');
  t.same(
    await proxied(shorter, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, fallbacks: [{ model: 'fine', max_tokens: 9000 }] })),
    ['mutation_not_applicable'],
    'a maximum of its own',
  );
  t.equal(await proxied(shorter, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, fallbacks: [{ model: 'fine' }] })), 'sent');
  const onlyIf = await start(
    '    - {id: a, when: {field: action.params.model, equals: fine}, effect: {mutations: [{key: action.params.max_tokens, value: 7}]}}\n',
  );
  t.equal(await proxied(onlyIf, named(OPENROUTER, path, { ...chatBody, max_tokens: 9, models: ['fine'] })), 'sent');
  t.match(
    JSON.parse(onlyIf.upstream.requests.at(-1)?.body.toString() ?? ''),
    { max_tokens: 7 },
    'what a rule changes for one of them is changed',
  );
  const moved = await start(
    '    - {id: a, effect: {mutations: [{key: action.target_host, value: openrouter.ai}, {key: action.target_path, value: /api/v1/chat/completions}]}}\n',
  );
  const unseen = named('api.cohere.com', '/v2/chat', { model: 'good', messages: [], models: ['evil'] });
  t.same(await direct(moved, unseen), ['mutation_not_applicable'], 'a name that means nothing until the call goes elsewhere');
});

t.test(
  'what a call may cost is that of the dearest model that may answer, of those inside of it, and of what else it asks for',
  async (t) => {
    const opus = 'anthropic/claude-3-opus';
    const small = 'openai/gpt-4o-mini';
    const path = '/api/v1/chat/completions';
    const call = (more: object) => named(OPENROUTER, path, { model: small, messages: [], max_tokens: 1000, ...more });
    // 1,000 tokens of output of claude-3-opus cost 0.075 USD, of gpt-4o-mini 0.0006 USD; no message has no tokens.
    const capped = await startGoverned(t, {
      hosts: HOSTS,
      bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.0749"}}}\n`),
    });
    const roomy = await startGoverned(t, {
      hosts: HOSTS,
      bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.075"}}}\n`),
    });
    for (const more of [{ models: [opus] }, { models: [small, opus] }, { fallbacks: [{ model: opus }] }]) {
      t.same(await proxied(capped, call(more)), ['budget_usd_max_exceeded'], JSON.stringify(more));
      t.same(await direct(capped, call(more)), ['budget_usd_max_exceeded'], `structured, ${JSON.stringify(more)}`);
      t.equal(await proxied(roomy, call(more)), 'sent', JSON.stringify(more));
    }
    t.equal(await proxied(capped, call({ models: [small, 'openai/gpt-4o'] })), 'sent');
    t.same(
      await proxied(roomy, call({ fallbacks: [{ model: opus, max_tokens: 1001 }] })),
      ['budget_usd_max_exceeded'],
      'a maximum of its own',
    );
    t.same(await proxied(roomy, call({ plugins: [{ id: 'x', model: opus }] })), ['budget_usd_max_exceeded'], 'inside of it: in addition');
    const limited = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(ALLOW) });
    const limit = { scope: 'project', scope_id: 'p', period: 'daily', limit_usd: '0.0749', actions: ['cap'] };
    t.equal((await limited.gw.admin('POST', '/v1/admin/budgets/limits', limit)).status, 201);
    const forProject = { attribution: { project_id: 'p' } };
    t.same(await direct(limited, call({ models: [opus] }), forProject), ['budget_limit_exceeded'], 'the limit of a project');
    t.equal(await direct(limited, call({ models: ['openai/gpt-4o'] }), forProject), 'sent');
    const advisor = (more: object) =>
      named(ANTHROPIC, '/v1/messages', {
        model: 'claude-3-5-haiku-20241022',
        max_tokens: 1000,
        messages: [],
        tools: [{ type: 'advisor_20260301', name: 'advisor', model: 'claude-3-opus-20240229', max_tokens: 500, ...more }],
      });
    // Twice 500 tokens of the advisor and 1,000 of the call's own model, and the tool as prompt of each.
    t.equal(await proxied(roomy, advisor({})), 'sent');
    t.same(await proxied(roomy, advisor({ max_uses: 2 })), ['budget_usd_max_exceeded']);
    const image = named(OPENAI, '/v1/responses', {
      model: 'gpt-4o',
      max_output_tokens: 1,
      input: '',
      tools: [{ type: 'image_generation', model: 'gpt-image-1' }],
    });
    t.same(await proxied(roomy, image), ['budget_usd_max_exceeded'], 'a picture of 6,240 tokens');
    const action = { target_path: image.path, params: image.body };
    // 6,240 tokens at 40 USD per million, one of the call's own model at 10, and the tool as prompt of both.
    const { body } = await roomy.execute({}, action);
    t.match(body, { decision_trace: { attributes: { cost_estimate_usd: /^0\.2497/, budget_usd_max: exactly('0.075') } } });
  },
);

t.test('the tools around the policy say of a call what the gateway says', async (t) => {
  const surroundings = { catalogue: loadCatalogue(), actionTypes: new Map<string, string>(), pricingCached: false };
  const policy = policyOf(bundleOf(NO_EVIL));
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const comparison = new PolicyComparison(policy, policyOf(bundleOf(LISTED)), (facts) => readCall(facts, true, surroundings.catalogue));
  const records: Record<string, unknown>[] = [];
  for (const one of NAMED.filter(({ headers }) => headers?.length === 0)) {
    const type = /embed/i.test(one.path) ? 'ai.embed' : 'ai.infer';
    const action = { type, method: 'POST', target_host: one.host, target_path: one.path, params: one.body };
    const { facts, mistakes, costAfter } = factsOfRequest({ workload_id: 'default', action }, surroundings);
    t.same(mistakes, [], titleOf(one));
    const explained = explain(policy, facts, { costAfter });
    t.match(explained.verdict, { decision: 'deny', reason_codes: ['evil'], model: 'evil' }, titleOf(one));
    const rule = explained.layers.flatMap(({ rules }) => rules).find(({ rule: name }) => name === 'targets/evil');
    t.match(rule, { outcome: 'matched', condition: { observed: 'evil', holds: true } }, 'its tests are shown with the model that decided');
    t.match(renderExplanation(explained, paintFor(false)), /about the model evil, which the call also names/);
    records.push(await governed.recordOf(await governed.through(`${one.host}:443`, chat([], one.path, one.body))));
  }
  for (const record of records) {
    comparison.add(record);
    const request = recordedRequest(record, [policy], (facts) => readCall(facts, true, surroundings.catalogue));
    if (request === undefined) throw new Error('no request');
    t.notOk(explainRecorded(policy, request).recorded, 'a record is explained by the names that it holds');
  }
  t.match(comparison.result(), { records: records.length, not_reproduced: 0, cannot_say: { records: 0 } });
  const costly = { ...chatBody, model: 'openai/gpt-4o-mini', max_tokens: 1000, models: ['anthropic/claude-3-opus'] };
  const action = { type: 'ai.infer', method: 'POST', target_host: OPENROUTER, target_path: '/api/v1/chat/completions', params: costly };
  const { costAfter } = factsOfRequest({ workload_id: 'default', action }, surroundings);
  t.equal(costAfter([]).estimatePico, 75_000_000_000n, 'and estimates it so');
  t.notOk(costAfter([]).hidden);
});
