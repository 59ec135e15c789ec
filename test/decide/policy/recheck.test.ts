// The second look of decision 5.4, beside the cases in YAML, which are about the first one.
import t from 'tap';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import { isAnotherChoice, recheck } from '../../../src/decide/policy/recheck.ts';
import { bundleOf, policyOf, someFacts } from './policy-facts.ts';

const MISTRAL = { connector_id: 'anthropic', target_host: 'api.anthropic.com' };

/** What the second look says of a call that came as `before` and goes on as `now`. */
function second(layers: Parameters<typeof bundleOf>[0], now: Partial<Facts>, first: Partial<Facts> = {}): string {
  const policy = policyOf(bundleOf(layers));
  const before = someFacts(first);
  const verdict = decide(policy, before);
  const refused = recheck(policy, someFacts({ ...first, ...now }), { before, verdict });
  return refused ? refused.reason_codes.join(' ') : 'stands';
}

const when = (field: string, equals: string) => ({ field, equals });
const openai = when('context.connector.id', 'openai');
const openaiHost = when('action.target_host', 'api.openai.com');

t.test('it is asked when connector, credential or host is another one, and of nothing else', (t) => {
  const before = someFacts();
  t.notOk(isAnotherChoice(before, someFacts({ params: { model: 'small' }, target_path: '/v1/responses' })));
  for (const now of [{ connector_id: 'anthropic' }, { credential_id: 'k' }, { target_host: 'eu.api.openai.com' }])
    t.ok(isAnotherChoice(before, someFacts(now)), Object.keys(now).join());
  t.end();
});

t.test('the rule that made the change counts as the allow of its layer', (t) => {
  const selects = { id: 's', when: openai, effect: { decision: 'allow', select_connector: 'anthropic' } };
  t.equal(second({ connectors: [selects] }, MISTRAL), 'stands');
  t.equal(
    second(
      {
        connectors: [
          { ...selects, effect: { select_connector: 'anthropic' } },
          { id: 'o', when: openai, effect: { decision: 'allow' } },
        ],
      },
      MISTRAL,
    ),
    'stands',
    'also when it decides nothing',
  );
  const moves = { mutations: [{ key: 'action.target_host', value: 'eu.api.openai.com' }] };
  const moved = { target_host: 'eu.api.openai.com' };
  t.equal(second({ targets: [{ id: 'm', when: openaiHost, effect: { decision: 'downgrade', ...moves } }] }, moved), 'stands');
  const takes = {
    id: 'c',
    when: { field: 'context.credential.id', equals: 'a' },
    effect: { decision: 'allow', select_credential: { credential_id: 'b' } },
  };
  t.equal(second({ credentials: [takes] }, { credential_id: 'b' }, { credential_id: 'a' }), 'stands');
  t.end();
});

t.test('of no other layer, and of no change that it did not make', (t) => {
  const selects = { id: 's', effect: { decision: 'allow', select_connector: 'anthropic' } };
  const allowed = { id: 'o', when: openaiHost, effect: { decision: 'allow' } };
  t.equal(second({ connectors: [selects], targets: [allowed] }, MISTRAL), 'target_not_allowed');
  const moves = { id: 'm', effect: { mutations: [{ key: 'action.target_host', value: 'api.anthropic.com' }] } };
  t.equal(second({ targets: [allowed], transforms: [moves] }, MISTRAL), 'target_not_allowed');
  t.equal(
    second({ connectors: [{ ...selects, when: openai }] }, { connector_id: 'gemini', target_host: 'generativelanguage.googleapis.com' }),
    'connector_not_allowed',
    'a hint stood before the selection',
  );
  const renames = { id: 'r', when: openai, effect: { decision: 'downgrade', mutations: [{ key: 'action.params.model', value: 'small' }] } };
  t.equal(second({ connectors: [renames] }, MISTRAL), 'connector_not_allowed', 'a change of the model chose no connector');
  t.end();
});

t.test('what its layer refuses stands', (t) => {
  const selects = { id: 's', priority: 1, when: openai, effect: { decision: 'allow', select_connector: 'anthropic' } };
  const never = { id: 'n', when: when('context.connector.id', 'anthropic'), effect: { decision: 'deny', reason_codes: ['never'] } };
  t.equal(second({ connectors: [selects, never] }, MISTRAL), 'never');
  t.end();
});
