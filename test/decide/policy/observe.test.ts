import t from 'tap';
import { observe } from '../../../src/decide/policy/evaluate.ts';
import { recheck } from '../../../src/decide/policy/recheck.ts';
import { bundleOf, policyOf, someFacts } from './policy-facts.ts';

const READ = [
  'context.workload.id',
  'context.time',
  'context.action.target_path',
  'context.action.headers_present',
  'context.action.header.X-Team',
  'context.estimates.cost_usd',
  'context.purpose',
  'context.labels.team',
  'context.action.params.model',
  'context.action.params.max_tokens',
  'context.action.params.messages',
  'context.action.params.user',
  'context.action.params.messages.0.content',
  'context.candidates.connectors',
  'context.risk.score',
];

t.test('the observed values are those that rules read, as JSON, without content and without query values', async (t) => {
  const when = { any: READ.map((field) => ({ field, exists: true })) };
  const policy = policyOf(
    bundleOf({
      risk: [
        { id: 'a', when, effect: { decision: 'allow' } },
        { id: 'b', conditions: { 'workload.id': 'w1' }, effect: { decision: 'deny' } },
      ],
    }),
  );
  const seen = observe(
    policy,
    someFacts({
      labels: { team: 'blue', other: 'x' },
      target_path: '/v1/x?key=sk-secret&alt=sse',
      params: { model: 'gpt-4o', max_tokens: 7, user: 'jane', messages: [{ content: 'secret' }] },
    }),
  );
  t.strictSame(seen, {
    'context.workload.id': 'w1',
    'context.time': '2026-11-21T12:00:00.000Z',
    'context.action.target_path': '/v1/x?key&alt',
    'context.action.headers_present': ['content-type', 'x-team'],
    'context.action.header.x-team': true,
    'context.estimates.cost_usd': '0.00305',
    'context.labels.team': 'blue',
    'context.action.params.model': 'gpt-4o',
    'context.action.params.max_tokens': 7,
    'context.candidates.connectors': ['openai'],
  });
  t.notMatch(JSON.stringify(seen), /secret|jane/);
  t.same([...policy.fieldsRead].sort(), policy.fieldsRead);
  t.equal(policy.fieldsRead.filter((name) => name === 'context.workload.id').length, 1);
  t.ok(policy.fieldsRead.includes('context.action.params.messages'), 'that it was read is known, its value is not');
});

t.test('a model that is no short text is content too', async (t) => {
  const policy = policyOf(
    bundleOf({
      risk: [{ id: 'a', conditions: { 'action.params.model': 'x', 'action.params.stream': true }, effect: { decision: 'allow' } }],
    }),
  );
  t.same(observe(policy, someFacts({ params: { model: 'p'.repeat(300), stream: true } })), { 'context.action.params.stream': true });
  t.same(observe(policy, someFacts({ params: { model: { prompt: 'secret' }, stream: 'secret' } })), {});
});

t.test('of long texts and lists the beginning is kept', async (t) => {
  const policy = policyOf(
    bundleOf({
      risk: [{ id: 'a', conditions: { 'action.target_path': 'x', 'action.headers_present': 'x' }, effect: { decision: 'allow' } }],
    }),
  );
  const names = Array.from({ length: 500 }, (_, n) => `x-${n}-${'y'.repeat(100)}`);
  t.same(observe(policy, someFacts({ target_path: `/${'x'.repeat(60_000)}`, header_names: new Set(names) })), {
    'context.action.target_path': `/${'x'.repeat(2_047)}…`,
    'context.action.headers_present': names.slice(0, 100).map((name) => `${name.slice(0, 60)}…`),
  });
});

t.test('the final choice is asked of connectors, credentials and targets once more, and only a refusal stands', async (t) => {
  const policy = policyOf(
    bundleOf({
      connectors: [{ id: 'c', conditions: { 'connector.id': 'openai' }, effect: { decision: 'allow' } }],
      targets: [{ id: 't', conditions: { 'action.target_host': 'evil.example' }, effect: { decision: 'deny', reason: 'evil' } }],
      risk: [{ id: 'r', effect: { decision: 'quarantine' } }],
    }),
  );
  t.equal(recheck(policy, someFacts()), undefined, 'other layers are not asked');
  t.match(recheck(policy, someFacts({ target_host: 'evil.example' })), { decision: 'deny', reason: 'evil', stopped_at: 'targets' });
  t.match(recheck(policy, someFacts({ connector_id: 'gemini' })), { decision: 'deny', reason_codes: ['connector_not_allowed'] });
  t.equal(recheck(policyOf(bundleOf({ identity: [] })), someFacts()), undefined, 'no default deny here');
});
