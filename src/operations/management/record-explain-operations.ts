import { z } from 'zod';
import { isJsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/text.ts';
import { capSentence } from '../../base/model/budget-limit.ts';
import { REASON_CODES } from '../../base/model/reason-codes.ts';
import { type ExplainedRule, type ExplainedTest, type Explanation, explainRecorded } from '../../policy-tools/explain.ts';
import { readCall } from '../../policy-tools/given-request.ts';
import { isUnseenRefusal, observedText, whatLetsThrough } from '../../policy-tools/let-through.ts';
import { recordedRequest } from '../../policy-tools/recorded-request.ts';
import { type GatewayOperation, operation, READS } from '../operation.ts';
import { findRecord } from '../record-operations.ts';
import type { OperationServices } from '../services.ts';
import { orgOf } from './org-of.ts';

/** Rules of one answer: those that took part, then those that came nearest. */
const MOST_RULES = 40;
const MAX_TEXT = 512;

const RULE = z.object({
  rule: z.string().meta({ description: '`layer/id`' }),
  level: z.enum(['base', 'org', 'node']),
  file: z.string(),
  line: z.int(),
  decision: z.string().nullable().meta({ description: 'null: effects only' }),
  outcome: z.enum(['matched', 'after_the_end', 'not_matched', 'not_evaluated', 'unknown']),
  took_part: z.boolean().meta({ description: 'It did when the call was decided' }),
  tests: z.array(z.string()).meta({ description: 'Each test on a field, whether it holds, and what the call had' }),
});
const BUNDLE = z.object({ bundle_id: z.string(), version: z.string() });

const EXPLAINED = z.object({
  record_id: z.string(),
  decision: z.string(),
  reason: z.string().optional(),
  reason_codes: z.array(z.object({ code: z.string(), meaning: z.string().optional() })),
  decided_by: BUNDLE.optional().meta({ description: 'The policy that decided; absent: the rules were not asked' }),
  judged_by: BUNDLE.extend({
    same: z.boolean().nullable().meta({ description: 'It is the one that decided; null: the record is too old to say' }),
  })
    .optional()
    .meta({
      description: 'The policy that is in force now, with the overlays of the org: layers and rules are what it says of the same call',
    }),
  decides_now: z
    .object({
      decision: z.string(),
      reason_codes: z.array(z.string()),
      certain: z.boolean().meta({ description: 'false: a rule that may refuse reads what records do not keep' }),
    })
    .optional(),
  because: z.enum(['after_the_rules', 'other_rules', 'not_asked']).optional().meta({
    description:
      'Where the record says something else than the rules do: a check behind them refused, other rules took part then, or rules were not asked',
  }),
  not_known: z
    .array(z.string())
    .optional()
    .meta({ description: 'What no record holds and could change the verdict: fields, spent amounts, buckets' }),
  would_let_it_through: z.array(z.string()),
  layers: z.array(
    z.object({
      layer: z.string(),
      kind: z.enum(['allow_list', 'empty', 'block_list', 'open']),
      decision: z.string().nullable().meta({ description: 'null: no opinion' }),
      code: z.string().nullable(),
      stopped: z.boolean(),
    }),
  ),
  rules: z.array(RULE),
  more_rules: z.int().meta({ description: 'Rules that are not shown' }),
});

/** What `mgmt.records.explain` answers. */
export type ExplainedRecord = z.output<typeof EXPLAINED>;

/** Why a call was decided as it was (decision 10.13). */
export const RECORD_EXPLAIN_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.records.explain',
    method: 'GET',
    path: '/mgmt/v1/records/{hash}/explain',
    scope: 'read',
    summary:
      'Why a call was allowed or denied: rule by rule with file and line, by the policy in force for the org, and what would let it through.',
    annotations: READS,
    errors: ['not_found'],
    tools: [{ name: 'explain_record', title: 'Explain why a call was denied', ids: { hash: 'record_id' } }],
    input: { params: z.object({ hash: z.string().meta({ description: 'Id of the record, or its hash' }) }) },
    output: { status: 200, schema: EXPLAINED },
    handle: async ({ principal, params }, services) => {
      const found = await findRecord(services.store, params.hash, principal);
      if (found === undefined) throw new GatewayError('not_found', 'There is no such record.');
      const record: unknown = JSON.parse(found.text);
      if (!isJsonObject(record)) throw new TypeError('a record is an object');
      return { json: await explained(record, orgOf(principal), services) };
    },
  }),
];

async function explained(
  record: Readonly<Record<string, unknown>>,
  orgId: string,
  { policies, connectors }: OperationServices,
): Promise<ExplainedRecord> {
  const { policy, content_hash: contentHash } = await policies.ready(orgId);
  const catalogue = connectors.catalogues.current();
  const request = recordedRequest(
    record,
    [policy],
    (facts) => readCall(facts, true, catalogue),
    () => contentHash,
  );
  const explanation = request === undefined ? undefined : explainRecorded(policy, request, { contentHash });
  const codes = Array.isArray(record['reason_codes']) ? record['reason_codes'].map(String) : [];
  const decision = String(record['decision']);
  return {
    record_id: String(record['record_id']),
    decision,
    ...(typeof record['reason'] === 'string' ? { reason: record['reason'] } : {}),
    reason_codes: codes.map((code) => ({ code, ...meaningOf(code) })),
    ...(request === undefined
      ? { because: 'not_asked' as const }
      : {
          decided_by: { bundle_id: request.bundleId, version: request.version },
          judged_by: { bundle_id: policy.bundle_id, version: policy.version, same: explanation?.decided_by?.same ?? null },
        }),
    ...(explanation === undefined
      ? {}
      : { ...nowOf(explanation), not_known: (explanation.not_known ?? []).map((text) => shorten(text, MAX_TEXT)) }),
    would_let_it_through: [
      ...aboutCap(record),
      ...whatLetsThrough({ decision, reasonCodes: codes, matched: request?.matched ?? [] }, explanation),
    ].map((text) => shorten(text, MAX_TEXT)),
    layers: (explanation?.layers ?? [])
      .filter(({ evaluated }) => evaluated)
      .map(({ layer, kind, decision: decided, code, stopped }) => ({ layer, kind, decision: decided, code, stopped })),
    ...rulesOf(explanation, request?.matched ?? []),
  };
}

/** Of several limits one has refused the call: what is to be raised, or waited for. */
function aboutCap(record: Readonly<Record<string, unknown>>): readonly string[] {
  const cap = capSentence(record);
  return cap === undefined ? [] : [`It was refused for money: ${cap}.`];
}

function meaningOf(code: string): { readonly meaning?: string } {
  const row = Object.hasOwn(REASON_CODES, code) ? REASON_CODES[code as keyof typeof REASON_CODES] : undefined;
  return row === undefined ? {} : { meaning: row.meaning };
}

function nowOf({ verdict, recorded, layers }: Explanation) {
  const certain = !layers.flatMap(({ rules }) => rules).some(isUnseenRefusal);
  return {
    decides_now: { decision: verdict.decision, reason_codes: verdict.reason_codes.map(String), certain },
    ...(recorded === undefined ? {} : { because: recorded.because }),
  };
}

/** Those that took part first. */
const RANK: Readonly<Record<ExplainedRule['outcome'], number>> = {
  matched: 0,
  unknown: 1,
  not_matched: 2,
  after_the_end: 3,
  not_evaluated: 4,
};

function rulesOf(
  explanation: Explanation | undefined,
  tookPart: readonly string[],
): { readonly rules: z.output<typeof RULE>[]; readonly more_rules: number } {
  const rank = ({ rule, outcome }: ExplainedRule) => (tookPart.includes(rule) ? 0 : RANK[outcome]);
  const all = (explanation?.layers ?? []).flatMap(({ rules }) => rules).toSorted((a, b) => rank(a) - rank(b));
  const shown = all.slice(0, MOST_RULES);
  return { rules: shown.map((rule) => shownRule(rule, tookPart)), more_rules: all.length - shown.length };
}

function shownRule(
  { rule, level, file, line, decision, outcome, condition }: ExplainedRule,
  tookPart: readonly string[],
): z.output<typeof RULE> {
  const tests = (condition === undefined ? [] : testsOf(condition)).map((text) => shorten(text, MAX_TEXT));
  return { rule, level, file, line, decision, outcome, took_part: tookPart.includes(rule), tests };
}

function testsOf(test: ExplainedTest): readonly string[] {
  if ('group' in test) return [`${test.group === 'all' ? 'all of' : 'any of'} these ${test.tests.length}:`, ...test.tests.flatMap(testsOf)];
  const holds = test.holds === null ? 'cannot be said' : test.holds ? 'holds' : 'does not hold';
  return [`${test.field} ${test.test}: ${holds} (${observedText(test)})`];
}
