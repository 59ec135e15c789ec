import t from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { canonicalRecord, RECORD_MEMBERS, type UnhashedRecord } from '../../src/record/canonical-record.ts';
import { rollUp } from '../../src/record/roll-up.ts';
import { checkRecord } from '../../src/record/verify-record.ts';
import {
  parseRollUpKey,
  SPEND_DAY,
  SPEND_PROVIDER_DAY,
  USAGE_DAY,
  USAGE_HOUR,
  USAGE_MONTH,
  USAGE_QUARTER,
} from '../../src/storage/contract/counter-spaces.ts';
import { fc } from '../support/properties.ts';

const TEXT = fc.string({ unit: 'binary', maxLength: 20 });
/** What the gateway itself writes: no quotes, no escapes. */
const PLAIN = fc.stringMatching(/^[a-zA-Z0-9_:.-]{0,20}$/);
const NUMBER = fc.oneof(fc.nat(), fc.double({ min: 0, max: 1e9, noNaN: true }));
const DATA = fc.dictionary(TEXT, TEXT, { maxKeys: 4 });

const KINDS: Partial<Record<keyof UnhashedRecord, fc.Arbitrary<unknown>>> = {
  stream: fc.boolean(),
  latency_ms: NUMBER,
  upstream_latency_ms: NUMBER,
  request_bytes: fc.nat(),
  response_bytes: fc.nat(),
  risk_score: NUMBER,
  status_code: fc.nat(),
  upstream_status: fc.nat(),
  labels: DATA,
  error: fc.record({ code: PLAIN, message: TEXT }),
  budget: fc.record(
    { kind: PLAIN, limit_id: PLAIN, scope_id: TEXT, limit_usd: PLAIN, cost_usd: PLAIN, resets_at: PLAIN },
    { requiredKeys: ['kind'] },
  ),
  metering: fc.record(
    {
      cache_write_tokens_in: fc.nat(),
      cached_tokens_in: fc.nat(),
      cost_usd: PLAIN,
      model: TEXT,
      rate_cache_write: PLAIN,
      rate_cached_in: PLAIN,
      rate_in: PLAIN,
      rate_out: PLAIN,
      rate_source: PLAIN,
      reasoning_tokens_out: fc.nat(),
      tokens_in: fc.nat(),
      tokens_out: fc.nat(),
      usage_reported: fc.boolean(),
    },
    { requiredKeys: [] },
  ),
  policy_trace: fc.record(
    {
      attributes: fc.dictionary(TEXT, fc.oneof(TEXT, NUMBER, fc.array(TEXT, { maxLength: 2 }), fc.boolean()), { maxKeys: 4 }),
      bundle_id: TEXT,
      matched_layers: fc.array(TEXT, { maxLength: 2 }),
      matched_levels: fc.array(TEXT, { maxLength: 2 }),
      matched_rule_ids: fc.array(TEXT, { maxLength: 2 }),
      missing_field: fc.array(TEXT, { maxLength: 2 }),
      overridden: fc.array(TEXT, { maxLength: 2 }),
      shadow: fc.record(
        {
          bundle_id: TEXT,
          decision: PLAIN,
          matched_rule_ids: fc.array(TEXT, { maxLength: 2 }),
          reason_codes: fc.array(TEXT, { maxLength: 2 }),
          stopped_at: TEXT,
          version: TEXT,
        },
        { requiredKeys: [] },
      ),
      stopped_at: TEXT,
      version: TEXT,
    },
    { requiredKeys: [] },
  ),
  reason_codes: fc.array(TEXT, { maxLength: 3 }),
  risk_signals: fc.array(TEXT, { maxLength: 3 }),
};
const PLAIN_MEMBERS = new Set<string>([
  'action_method',
  'action_type',
  'caller_ip',
  'connector_id',
  'connector_version',
  'node_id',
  'provider',
  'target_host',
  'completed_at',
  'connection_type',
  'created_at',
  'decision',
  'record_id',
  'record_tier',
  'request_sha256',
  'response_sha256',
  'schema',
  'stream_outcome',
  'traffic_class',
]);

const RECORD = fc.record(
  Object.fromEntries(RECORD_MEMBERS.map((name) => [name, KINDS[name] ?? (PLAIN_MEMBERS.has(name) ? PLAIN : TEXT)])),
  // Every record has these.
  { requiredKeys: ['decision', 'record_id'] },
) as fc.Arbitrary<UnhashedRecord>;

t.test('the record is written exactly as RFC 8785 would', async (t) => {
  fc.assert(
    fc.property(RECORD, (record) => {
      const { text, hash } = canonicalRecord(record);
      const wellFormed = JSON.parse(
        JSON.stringify(record, (_key, value: unknown) => (typeof value === 'string' ? value.toWellFormed() : value)),
      ) as Record<string, unknown>;
      return hash === sha256Hex(canonicalJson(wellFormed)) && text === canonicalJson({ ...wellFormed, record_hash: hash });
    }),
    { numRuns: 500 },
  );
  t.pass('500 random records');
});

t.test('a stored record verifies, and any change to it shows', async (t) => {
  const { text, hash } = canonicalRecord({
    record_id: 'r',
    org_id: 'acme',
    labels: { b: '2', a: '1' },
    reason_codes: [],
  } as unknown as UnhashedRecord);
  const record = JSON.parse(text) as Record<string, unknown>;
  const check = (value: unknown) => checkRecord(Buffer.from(JSON.stringify(value)));
  t.match(check(record), { stored: hash, computed: hash });
  for (const change of [{ org_id: 'other' }, { extra: 1 }]) {
    const { stored, computed } = check({ ...record, ...change });
    t.equal(stored, hash);
    t.not(computed, hash);
  }
  t.throws(() => check([]), /not a JSON object/);
  t.throws(() => check({ org_id: 'acme' }), /no record_hash/);
});

t.test('roll-ups count every action and no connection, and keep only models that an upstream accepted', async (t) => {
  const base = {
    record_tier: 'action',
    completed_at: '2026-11-21T10:00:00.000Z',
    org_id: 'a|b',
    workload_id: 'w',
    connector_id: 'openai',
    decision: 'allow',
    upstream_status: 200,
    metering: {
      tokens_in: 3,
      tokens_out: 4,
      cost_usd: '0.000001',
      model: 'm',
      usage_reported: true,
      rate_in: '1',
      rate_out: '1',
      rate_source: 'catalogue',
    },
  } as unknown as ExecutionRecord;
  const amounts = { requests: 1n, tokens_in: 3n, tokens_out: 4n, cost_pico: 1_000_000n };
  t.same(rollUp(base), [
    { op: 'add', space: USAGE_DAY, key: '2026-11-21|a%7Cb|w|openai|m|allow', amounts },
    { op: 'add', space: USAGE_MONTH, key: '2026-11|a%7Cb|w|openai|allow', amounts },
    { op: 'add', space: USAGE_HOUR, key: 'a%7Cb|2026-11-21T10|allow', amounts: { ...amounts, requests_m00: 1n } },
    {
      op: 'add',
      space: USAGE_QUARTER,
      key: 'a%7Cb|2026-11-21T10|w|openai|m|allow',
      amounts: { requests_0: 1n, tokens_in_0: 3n, tokens_out_0: 4n, cost_pico_0: 1_000_000n },
    },
  ]);
  const metering = { ...base.metering, cached_tokens_in: 2, usage_reported: false, rate_source: 'default' };
  const doubted = { cached_in: 2n, no_usage: 1n, no_usage_pico: 1_000_000n, by_default: 1n, by_default_pico: 1_000_000n };
  t.match(rollUp({ ...base, metering } as unknown as ExecutionRecord), [
    { space: USAGE_DAY, amounts: { ...amounts, ...doubted } },
    { space: USAGE_MONTH, amounts: { ...amounts, ...doubted } },
    { space: USAGE_HOUR, amounts: { ...amounts, ...doubted, requests_m00: 1n } },
    {
      space: USAGE_QUARTER,
      amounts: Object.fromEntries(Object.entries({ ...amounts, ...doubted }).map(([name, amount]) => [`${name}_0`, amount])),
    },
  ]);
  for (const [name, more] of Object.entries({
    'what the upstream refused': { upstream_status: 429 },
    'what has a record of its own': { usage_record_id: 'r' },
    'what a plan pays for': { metering: { ...metering, billing: 'plan' } },
    'what is free': { metering: { ...metering, cost_usd: '0', rate_in: '0', rate_out: '0' } },
  })) {
    const [day] = rollUp({ ...base, metering, ...more } as unknown as ExecutionRecord);
    t.notOk(day?.op === 'add' && 'no_usage' in day.amounts, name);
  }
  t.same(rollUp({ ...base, project_id: 'p|q' })[4], {
    op: 'add',
    space: SPEND_DAY,
    key: '2026-11-21|a%7Cb|p%7Cq',
    amounts: { cost_pico: 1_000_000n, cost_pico_h10: 1_000_000n },
  });
  const generic = { ...base, connector_id: 'generic_http', provider: 'openai' };
  t.match(rollUp(generic)[4], { space: SPEND_PROVIDER_DAY, key: '2026-11-21|a%7Cb|openai', amounts: { cost_pico: 1_000_000n } });
  t.equal(rollUp({ ...base, provider: 'openai' }).length, 4, 'its own connector is in the usage of the day');
  t.equal(
    rollUp({ ...base, project_id: 'p', metering: undefined } as unknown as ExecutionRecord).length,
    4,
    'what cost nothing is no spend',
  );
  t.match(rollUp({ ...base, upstream_status: 404 }), { 0: { key: '2026-11-21|a%7Cb|w|openai||allow' } });
  t.same(rollUp({ ...base, record_tier: 'connection' }), []);
});

t.test('keys that were remembered are those of the same period, decision, org, workload, connector and model', async (t) => {
  const part = fc.constantFrom('a', 'b', 'a|', '|b');
  const seen = fc.record({
    hour: fc.constantFrom('2026-11-21T10', '2026-11-21T11', '2026-12-21T10'),
    org: part,
    workload: part,
    connector: part,
    decision: fc.constantFrom('allow', 'deny'),
    model: fc.constantFrom('a', 'b\na', 'a\n'),
  });
  const property = fc.property(seen, ({ hour, org, workload, connector, decision, model }) => {
    const record = {
      record_tier: 'action',
      completed_at: `${hour}:00:00.000Z`,
      org_id: org,
      workload_id: workload,
      connector_id: connector,
      decision,
      upstream_status: 200,
      metering: { tokens_in: 1, tokens_out: 1, cost_usd: '0', model },
    } as unknown as ExecutionRecord;
    const keys = rollUp(record).map(({ key }) => parseRollUpKey(key));
    t.strictSame(keys, [
      [hour.slice(0, 10), org, workload, connector, model, decision],
      [hour.slice(0, 7), org, workload, connector, decision],
      [org, hour, decision],
      [org, hour, workload, connector, model, decision],
    ]);
  });
  fc.assert(property, { numRuns: 300 });
});
