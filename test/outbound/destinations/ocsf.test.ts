// OCSF: every kind of event as its class wants it, held against the facts of the published schema.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { packageRoot, packageVersion } from '../../../src/base/lib/package-root.ts';
import { DECISIONS } from '../../../src/base/model/reason-codes.ts';
import { OPERATIONS } from '../../../src/operations/operation-table.ts';
import type { ExportedEvent } from '../../../src/outbound/destinations/event-envelope.ts';
import { ocsfEvent } from '../../../src/outbound/destinations/ocsf/ocsf-event.ts';
import { exportedEvent, exportedRecord, testEvent } from '../../../src/services/sending/exports/exported-events.ts';
import { fc } from '../../support/properties.ts';
import { testRecord } from '../../support/test-record.ts';

const schema = JSON.parse(readFileSync(join(packageRoot(), 'test', 'vectors', 'ocsf', 'ocsf-1.8.0.json'), 'utf8')) as object;
const validate = new Ajv2020({ allErrors: true, strict: false }).compile(schema);

/** The event as it goes on the wire, once it has been found to be right. */
function sent(event: ExportedEvent): Record<string, unknown> {
  const shown = JSON.parse(JSON.stringify(ocsfEvent(event))) as Record<string, unknown>;
  if (!validate(shown)) throw new Error(JSON.stringify(validate.errors));
  return shown;
}

const metering = { tokens_in: 11, tokens_out: 7, cost_usd: '0.1', usage_reported: true };
const of = (over: Parameters<typeof testRecord>[0] = {}) => sent(exportedRecord(JSON.stringify(testRecord(over))));
const AT = Date.UTC(2026, 10, 21, 12);

t.test('an execution is API Activity of the AI operation, with the whole record', async (t) => {
  const record = testRecord({
    metering,
    caller_id: 'bob',
    risk_score: 0.42,
    policy_trace: { bundle_id: 'b', version: '7', matched_rule_ids: ['r'] },
  });
  const event = exportedRecord(JSON.stringify(record));
  const shown = sent(event);
  t.match(shown, {
    class_uid: 6003,
    category_uid: 6,
    activity_id: 1,
    type_uid: 600_301,
    severity_id: 1,
    time: AT,
    status_id: 1,
    action_id: 1,
    disposition_id: 1,
    risk_score: 42,
    metadata: {
      version: '1.8.0',
      uid: event.id,
      tenant_uid: 'acme',
      correlation_uid: record.request_id,
      product: { version: packageVersion() },
      profiles: ['security_control', 'ai_operation'],
    },
    actor: { app_uid: 'ci', user: { name: 'bob', org: { uid: 'acme' } } },
    src_endpoint: { ip: '192.0.2.7' },
    dst_endpoint: { hostname: 'api.openai.com' },
    api: { operation: 'ai.infer', service: { name: 'openai' } },
    http_response: { code: 200, latency: 1_200 },
    ai_model: { ai_provider: 'openai', name: 'gpt-4o-mini' },
    message_context: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
    policy: { uid: 'b', version: '7', desc: 'r' },
  });
  t.same(shown['unmapped'], record, 'so that it can be verified');
});

t.test('every decision has its action and disposition', async (t) => {
  const cases: Readonly<Record<string, readonly [action: number, disposition: number, status: number]>> = {
    allow: [1, 1, 1],
    downgrade: [4, 1, 1],
    rate_limit: [2, 25, 2],
    require_approval: [2, 14, 2],
    require_attribution: [2, 25, 2],
    deny: [2, 2, 2],
    quarantine: [2, 2, 2],
    error: [1, 27, 2],
  };
  for (const decision of [...DECISIONS, 'error']) {
    const [action, disposition, status] = cases[decision] ?? [];
    t.match(of({ decision, reason: 'why', reason_codes: ['code'] }), {
      action_id: action,
      disposition_id: disposition,
      status_id: status,
      status_code: 'code',
      status_detail: 'why',
    });
  }
});

t.test('methods are activities, a record of usage is none, and who names no model has no AI profile', async (t) => {
  for (const [method, activity] of [
    ['GET', 2],
    ['PATCH', 3],
    ['DELETE', 4],
    ['CONNECT', 99],
    ['X-ODD', 99],
  ] as const)
    t.match(of({ action_method: method }), { activity_id: activity, type_uid: 600_300 + activity });
  t.match(of({ record_tier: 'usage' }), { activity_id: 99, activity_name: 'Usage' });
  const plain = of({
    model: undefined,
    provider: undefined,
    caller_ip: undefined,
    status_code: undefined,
    upstream_status: undefined,
    workload_id: '',
  });
  t.same((plain['metadata'] as Record<string, unknown>)['profiles'], ['security_control']);
  t.match(plain, { src_endpoint: { name: 'unknown' }, actor: { app_uid: 'unknown' } });
});

const entry = {
  quarantine_id: 'q1',
  org_id: 'acme',
  workload_id: 'ci',
  caller_id: 'bob',
  action_type: 'ai.infer',
  reason: 'it is bad',
  reason_codes: ['quarantined'],
  risk_score: 0.95,
  record_id: 'r1',
  created_at: '2026-11-21T12:00:00.000Z',
  released_at: null,
  released_by: null,
};

function durable(event: Parameters<typeof exportedEvent>[0]): ExportedEvent {
  const exported = exportedEvent(event);
  if (exported === undefined) throw new Error('it is not exported');
  return exported;
}

t.test('quarantine and risk are Detection Findings, and a release closes the finding of its entry', async (t) => {
  const made = sent(durable({ id: '1', name: 'quarantine', at: AT, event: entry }));
  t.match(made, {
    class_uid: 2004,
    type_uid: 200_401,
    status_id: 1,
    is_alert: true,
    risk_score: 95,
    risk_level_id: 4,
    finding_info: { uid: 'q1' },
  });
  const over = sent(
    durable({ id: '2', name: 'quarantine', at: AT, event: { ...entry, released_at: '2026-11-21T13:00:00.000Z', released_by: 'amy' } }),
  );
  t.match(over, { type_uid: 200_403, status_id: 4, is_alert: false, finding_info: { uid: 'q1' } });
  t.not((made['metadata'] as { uid: string }).uid, (over['metadata'] as { uid: string }).uid);
  const alert = {
    risk_score: 0.72,
    signals: ['rate_spike'],
    request_rate: '1',
    cost_rate: '1',
    org_id: 'acme',
    workload_id: 'ci',
    record_id: 'r1',
  } as const;
  t.match(sent(durable({ id: '3', name: 'riskAlert', at: AT, event: alert })), {
    class_uid: 2004,
    risk_score: 72,
    risk_level_id: 3,
    severity_id: 4,
    finding_info: { types: ['rate_spike'], analytic: { type_id: 2 } },
    evidences: [{ actor: { app_uid: 'ci' } }],
  });
});

t.test('approvals and the audit trail are Entity Management', async (t) => {
  const approval = {
    approval_id: 'a1',
    org_id: 'acme',
    workload_id: 'ci',
    caller_ip: '192.0.2.7',
    reason: 'ask first',
    reason_codes: [],
    rule_ids: [],
    connection_type: 'direct_api',
    attribution: {},
    action: { type: 'ai.infer', method: 'POST', target_host: 'h', target_path: '/', stream: false, param_sizes: {} },
    action_hash: 'h',
    record_id: 'r1',
    created_at: '2026-11-21T12:00:00.000Z',
    expires_at: '2026-11-21T13:00:00.000Z',
    decided_by: null,
    decided_at: null,
  } as const;
  const uids = (['pending', 'approved', 'denied', 'expired', 'withdrawn'] as const).map((status, n) => {
    const decided_by = status === 'approved' || status === 'denied' ? 'amy' : null;
    const shown = sent(durable({ id: `a${n}`, name: 'approval', at: AT, event: { ...approval, status, decided_by } }));
    t.match(shown, {
      class_uid: 3004,
      entity: { uid: 'a1', type: 'approval' },
      disposition_id: [14, 8, 25, 25, 25][n],
      actor: decided_by === null ? { app_uid: 'ci' } : { user: { uid: 'amy' } },
    });
    return (shown['metadata'] as { uid: string }).uid;
  });
  t.equal(new Set(uids).size, 5);
  const audit = {
    audit_id: 'u1',
    at: '2026-11-21T12:00:00.000Z',
    principal: { kind: 'management_key', id: 'key-1' },
    operation: 'mgmt.exports.create',
    object: 'd1',
    from: '192.0.2.7',
    changes: [],
  } as const;
  t.match(sent(durable({ id: 'u1', name: 'audit', at: AT, event: { ...audit, org_id: 'acme' } })), {
    class_uid: 3004,
    activity_id: 1,
    entity: { uid: 'd1', type: 'exports' },
    actor: { user: { uid: 'key-1' } },
  });
  // What sends is no change of an entity.
  const changing = OPERATIONS.filter(({ id, annotations }) => !annotations.readOnly && !/\.(test|resend)$/.test(id));
  t.ok(changing.length > 40);
  for (const { id: operation } of changing) {
    const { activity_id: activity } = sent(durable({ id: operation, name: 'audit', at: AT, event: { ...audit, operation } }));
    t.not(activity, 99, `${operation} has an activity`);
  }
});

t.test('a test event is a base event', async (t) => {
  t.match(sent(testEvent('1', 'acme', AT)), { class_uid: 0, type_uid: 99, activity_name: 'test', unmapped: { test: true } });
});

t.test('whatever stands in a record, the event is as the schema wants it', async (t) => {
  const some = fc.oneof(
    fc.string(),
    fc.constant(undefined),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.constant(null),
    fc.array(fc.string()),
    fc.object(),
  );
  const members = [
    'caller_id',
    'caller_ip',
    'reason',
    'reason_codes',
    'provider',
    'model',
    'metering',
    'error',
    'risk_score',
    'action_method',
    'target',
    'status_code',
    'policy_trace',
  ];
  const over = fc.record(Object.fromEntries(members.map((name) => [name, some])));
  t.doesNotThrow(() => fc.assert(fc.property(over, (given) => void of(given))));
});
