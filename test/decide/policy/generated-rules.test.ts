// What the gateway itself allows (`auto.allow.…`) shuts out nothing else, and opens nothing that persons have closed
// (policy.md 3).
import t from 'tap';
import { compilePolicy } from '../../../src/decide/policy/compile.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { autoRules } from '../../../src/services/policy/auto-rules.ts';
import { someFacts } from './policy-facts.ts';

const PERSONS = { openai: 'openai', anthropic: 'anthropic', cohere: 'cohere' } as const;
const bundleOf = (layers: string) => ({ text: `{schema: gw.policy_bundle.v1, inline_rules: {${layers}}}`, file: 'bundle.yaml' });
const ALLOW = 'targets: [{id: all, effect: {decision: allow}}]';

/** What is decided of a call to each provider. */
function decisions(bundle: string, keys: readonly string[], overlay?: string): Readonly<Record<string, string>> {
  const auto = autoRules({ org_id: 'acme', connector_ids: keys }, 'enterprise');
  const org = [...(auto === undefined ? [] : [auto]), ...(overlay === undefined ? [] : [{ ...bundleOf(overlay), file: 'org overlay' }])];
  const { policy, errors } = compilePolicy({ bundle: bundleOf(bundle), overlays: { org }, tier: 'enterprise' });
  if (policy === undefined) throw new Error(JSON.stringify(errors));
  return Object.fromEntries(
    Object.values(PERSONS).map((id) => {
      const { decision, reason_codes: codes } = decide(policy, someFacts({ connector_id: id }));
      return [id, decision === 'deny' ? codes.join() : decision];
    }),
  );
}

const all = (decision: string) => ({ openai: decision, anthropic: decision, cohere: decision });

// Holds: generated-rules-change-nothing-written
t.test('the first key of one provider shuts out no other', async (t) => {
  t.same(decisions(ALLOW, []), all('allow'));
  t.same(decisions(ALLOW, ['openai']), all('allow'));
  t.same(decisions(ALLOW, ['openai', 'cohere']), all('allow'));
  const block = `${ALLOW}, connectors: [{id: no, conditions: {context.connector.id: cohere}, effect: {decision: deny}}]`;
  t.same(decisions(block, ['openai']), { ...all('allow'), cohere: 'connector_not_allowed' }, 'a block-list stays one');
  t.same(decisions(block, ['cohere']), { ...all('allow'), cohere: 'connector_not_allowed' }, 'and a key lifts no block');
  const strict = `${ALLOW}}, evaluation: {merge_strategy: strict`;
  t.same(decisions(strict, ['openai']), all('allow'));
});

t.test('it allows where nothing else does', async (t) => {
  t.same(decisions('risk: []', ['openai']), { ...all('default_deny'), openai: 'allow' });
});

// Holds: generated-rules-change-nothing-written
t.test('what persons have made an allow-list, or closed, stays so', async (t) => {
  const list = (layer: string) =>
    `${ALLOW}, ${layer}: [{id: only, conditions: {context.connector.id: anthropic}, effect: {decision: allow}}]`;
  t.same(decisions(list('connectors'), ['openai']), { openai: 'allow', anthropic: 'allow', cohere: 'connector_not_allowed' });
  t.same(decisions(list('credentials'), ['openai']), { openai: 'allow', anthropic: 'allow', cohere: 'credential_not_allowed' });
  t.same(decisions(`${ALLOW}, connectors: []`, ['openai']), { ...all('connector_not_allowed'), openai: 'allow' });
  const same = `${ALLOW}, connectors: [{id: auto.allow.openai, conditions: {context.connector.id: openai}, effect: {decision: allow}}]`;
  t.same(decisions(same, ['openai']), { ...all('connector_not_allowed'), openai: 'allow' }, 'also by a rule of the same name');
  t.same(
    decisions(
      ALLOW,
      ['openai'],
      'connectors: [{id: auto.allow.openai, conditions: {context.connector.id: openai}, effect: {decision: allow}}]',
    ),
    { ...all('connector_not_allowed'), openai: 'allow' },
    'in an overlay too',
  );
});

t.test('an overlay takes a generated rule away, and that denies nothing', async (t) => {
  const off = 'connectors: [{id: auto.allow.openai, disabled: true}], credentials: [{id: auto.allow.openai, disabled: true}]';
  t.same(decisions(ALLOW, ['openai'], off), all('allow'));
});
