import { z } from 'zod';
import { isJsonObject } from '../../base/json/json-object.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import { parseYaml, toPlain } from '../../base/lib/yaml.ts';
import { DECISIONS } from '../../base/model/reason-codes.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import { judgeCaps } from '../../decide/policy/judge-caps.ts';
import { readSuite, type SuiteCase } from '../../decide/policy/suite.ts';
import { shownVerdict } from '../../decide/policy/suite-case.ts';
import { mergeRules } from '../../policy-tools/edit-overlay.ts';
import { callMeaning, factsOfRequest } from '../../policy-tools/given-request.ts';
import type { PolicyDraft } from '../../services/policy/policy-drafts.ts';
import { bringsPolicy, runCases } from '../../services/policy/policy-preview.ts';
import { choice, members, optional } from '../members.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { ownWarnings, surroundingsOf } from '../policy-change-shapes.ts';
import { MAX_PUT_LENGTH } from '../policy-operations.ts';
import type { OperationServices } from '../services.ts';
import { count, PROBLEM } from '../shapes.ts';
import { orgOf } from './org-of.ts';

const LEVELS = ['base', 'org', 'node'] as const;
const TEXT_RULE = `must be YAML text of at most ${MAX_PUT_LENGTH} characters`;
const SUITE_RULE = `must be a suite (schema: gw.policy_tests.v1) of at most ${POLICY_BOUNDS.testText.one} characters`;
const REQUEST_RULE = `must be a list of at most ${POLICY_BOUNDS.testCases.one} requests, each as YAML, JSON or an object`;

const DRAFT = {
  level: choice(LEVELS).optional().meta({
    description: 'What bundle_yaml replaces: the bundle (base), the overlay of the org (default) or of this node',
  }),
  merge: z.boolean('must be true or false').optional().meta({ description: 'true: it is laid into the overlay that is there' }),
};
const draftText = z.string(TEXT_RULE).max(MAX_PUT_LENGTH, TEXT_RULE);

const CHECK = members({ bundle_yaml: draftText.meta({ description: 'A bundle or an overlay, as YAML' }), ...DRAFT });

const CHECKED = z.object({
  ok: z.boolean().meta({ description: 'It has no errors, and lets something pass (`denies_all` of warnings)' }),
  rules: count.meta({ description: 'Of all that the org would be judged by' }),
  errors: z.array(PROBLEM),
  warnings: z.array(PROBLEM),
});

const asText = z
  .preprocess((given) => (isJsonObject(given) ? JSON.stringify(given) : given), z.string(REQUEST_RULE))
  .meta({ type: 'string' });

const TEST = members({
  requests: z.array(asText, REQUEST_RULE).max(POLICY_BOUNDS.testCases.one, REQUEST_RULE).optional().meta({
    description:
      'Calls to judge, each as YAML or JSON: fields by name, {"action.params.model": "gpt-4o", "attribution.project_id": "x"}; or an ActionRequest',
  }),
  suite: z
    .string(SUITE_RULE)
    .max(POLICY_BOUNDS.testText.one, SUITE_RULE)
    .optional()
    .meta({ description: 'Test cases, as `gw policy test` takes them' }),
  bundle_yaml: draftText.optional().meta({ description: 'A draft; without it the policy in force is asked' }),
  ...DRAFT,
});

const VERDICT = {
  decision: z.enum(DECISIONS),
  reason_codes: z.array(z.string()),
  reason: z.string().nullable(),
  matched: z.array(z.string()).meta({ description: '`layer/rule_id`, with `@level` of an overlay' }),
  stopped_at: z.string().nullable(),
};
const JSON_TEXT = z.string().meta({ description: 'As JSON' });
const TESTED = z.object({
  ok: z.boolean().meta({ description: 'Every case is as expected' }),
  requests: z.array(z.object(VERDICT)),
  cases: z.array(
    z.object({
      name: z.string(),
      line: z.int(),
      passed: z.boolean(),
      mismatches: z.array(z.object({ member: z.string(), expected: JSON_TEXT, actual: JSON_TEXT })),
      ...VERDICT,
    }),
  ),
});

/** What can be known of a policy before it is put (decision 5.11). */
export const POLICY_CHECK_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.policies.check',
    method: 'POST',
    path: '/mgmt/v1/policies/check',
    scope: 'read',
    summary: 'Every error and warning of a bundle or an overlay, judged with the bundle and overlays of the gateway; nothing is written.',
    annotations: READS,
    tools: [{ name: 'check_policy', title: 'Check a policy' }],
    input: { body: { schema: () => CHECK, what: 'The draft' } },
    output: { status: 200, schema: CHECKED },
    handle: async ({ principal, body }, services) => {
      const { policies } = services;
      const orgId = orgOf(principal);
      const checked = await policies.drafts.checked(policies.drafts.texts(orgId, draftOf(orgId, body.bundle_yaml, body, services)));
      if (checked === undefined)
        throw new GatewayError(
          'invalid_request',
          `All texts together have more than ${POLICY_BOUNDS.checked.one} characters: check them with gw policy check.`,
        );
      const { policy, errors, warnings, deniesAll } = checked;
      return {
        json: {
          ok: errors.length === 0 && deniesAll === undefined,
          rules: policy?.ruleCount ?? 0,
          errors,
          warnings: [...(deniesAll === undefined ? [] : [deniesAll]), ...ownWarnings(warnings)],
        },
      };
    },
  }),
  operation({
    id: 'mgmt.policies.test',
    method: 'POST',
    path: '/mgmt/v1/policies/test',
    scope: 'read',
    summary:
      'What policy in force, or a draft, would decide about described calls, and whether test cases hold; nothing is called or written.',
    annotations: READS,
    errors: ['invalid_policy'],
    tools: [{ name: 'test_policy', title: 'Test a policy' }],
    input: { body: { schema: () => TEST, what: 'The test' } },
    output: { status: 200, schema: TESTED },
    handle: async ({ principal, body }, services) => {
      const orgId = orgOf(principal);
      if (body.suite === undefined && (body.requests ?? []).length === 0)
        throw badTest([{ path: 'requests', message: 'is needed, or suite: calls to judge' }]);
      const cases = casesIn(body.suite, services);
      const requests = (body.requests ?? []).map((text, i) => requestIn(text, i, orgId, services));
      const policy = await policyOf(orgId, body, services);
      const outcomes = await runCases(cases, policy);
      const judged = requests.map(({ facts, costAfter }) => {
        const verdict = decide(policy, facts);
        return verdictShown(shownVerdict(judgeCaps(verdict, costAfter(verdict.effects.mutations), 0n).verdict));
      });
      return {
        json: {
          ok: outcomes.every(({ mismatches }) => mismatches.length === 0),
          requests: judged,
          cases: outcomes.map(({ name, line, mismatches, verdict }) => ({
            name,
            line,
            passed: mismatches.length === 0,
            mismatches: mismatches.map(({ member, expected, actual }) => ({ member, expected: jsonOf(expected), actual: jsonOf(actual) })),
            ...verdictShown(verdict),
          })),
        },
      };
    },
  }),
];

interface DraftAsked {
  readonly level?: PolicyDraft['level'] | undefined;
  readonly merge?: boolean | undefined;
}

function draftOf(
  orgId: string,
  text: string,
  { level = 'org', merge = false }: DraftAsked,
  { policies, health }: OperationServices,
): PolicyDraft {
  if (!merge) return { level, text };
  if (level === 'base') throw badTest([{ path: 'merge', message: 'belongs to an overlay: a bundle is given whole' }]);
  const node = level === 'node' ? health.nodeId : undefined;
  const there = policies.overlays(orgId).find((one) => one.level === level && one.node_id === node)?.bundle_yaml ?? '';
  return { level, text: there === '' ? text : mergeRules(there, text) };
}

async function policyOf(
  orgId: string,
  { bundle_yaml: text, ...asked }: DraftAsked & { readonly bundle_yaml?: string | undefined },
  services: OperationServices,
): Promise<CompiledPolicy> {
  const { policies } = services;
  if (text === undefined) return (await policies.ready(orgId)).policy;
  return policies.drafts.compiled(policies.drafts.texts(orgId, draftOf(orgId, text, asked, services)));
}

function casesIn(text: string | undefined, services: OperationServices): readonly SuiteCase[] {
  if (text === undefined) return [];
  const { suite, errors } = readSuite({ text, file: 'suite' }, { meaning: callMeaning(surroundingsOf(services)) });
  if (suite === undefined) throw badTest(errors ?? []);
  const own = suite.cases.filter(bringsPolicy);
  if (own.length > 0)
    throw badTest(
      own.map(({ name }) => ({
        path: 'suite',
        message: `the case "${name}" brings a policy of its own; here one policy is tested: give it as bundle_yaml`,
      })),
    );
  if (suite.cases.length > POLICY_BOUNDS.testCases.one)
    throw badTest([{ path: 'suite', message: `has ${suite.cases.length} cases; at most ${POLICY_BOUNDS.testCases.one} are run` }]);
  return suite.cases;
}

function requestIn(text: string, i: number, orgId: string, services: OperationServices) {
  const path = `requests[${i}]`;
  const { root, errors } = parseYaml(text, path);
  const [first] = errors;
  if (first !== undefined) throw badTest([{ ...first, path }]);
  const given = toPlain(root);
  if (!isJsonObject(given)) throw badTest([{ path, message: 'must be a map: fields by their names' }]);
  const { facts, costAfter, mistakes } = factsOfRequest({ org_id: orgId, ...given }, surroundingsOf(services));
  if (mistakes.length > 0)
    throw badTest(mistakes.map(({ path: member, message, hint }) => ({ path: `${path}.${member}`, message, ...optional('hint', hint) })));
  return { facts, costAfter };
}

function badTest(details: readonly ErrorDetail[]): GatewayError {
  return new GatewayError('invalid_request', `The test has ${details.length} bad member(s).`, { details });
}

/** Of what is not there: null. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value ?? null);
}

function verdictShown(verdict: Readonly<Record<string, unknown>>) {
  const { decision, reason_codes, reason, matched, stopped_at } = verdict as z.output<z.ZodObject<typeof VERDICT>>;
  return { decision, reason_codes, reason, matched, stopped_at };
}
