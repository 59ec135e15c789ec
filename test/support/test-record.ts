import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';

/** A record of an allowed chat call to OpenAI by the redirect door; `over` is laid over it. Its hash is none. */
export function testRecord(over: Partial<Record<keyof ExecutionRecord, unknown>> = {}): ExecutionRecord {
  const record: ExecutionRecord = {
    schema: 'gw.execution_record.v1',
    record_id: '0198a1b2-0000-7000-8000-000000000001',
    record_hash: '0'.repeat(64),
    request_id: '0198a1b2-0000-7000-8000-000000000002',
    created_at: '2026-11-21T12:00:00.000Z',
    completed_at: '2026-11-21T12:00:01.500Z',
    org_id: 'acme',
    workload_id: 'ci',
    caller_ip: '192.0.2.7',
    node_id: 'node-1',
    decision: 'allow',
    reason_codes: [],
    action_type: 'ai.infer',
    action_method: 'POST',
    target: 'https://api.openai.com/v1/chat/completions',
    target_host: 'api.openai.com',
    target_path: '/v1/chat/completions',
    connection_type: 'sdk_redirect',
    traffic_class: 'developer',
    record_tier: 'action',
    connector_id: 'openai',
    provider: 'openai',
    model: 'gpt-4o-mini',
    status_code: 200,
    upstream_status: 200,
    latency_ms: 1_500,
    upstream_latency_ms: 1_200,
    stream: false,
    request_bytes: 120,
    response_bytes: 340,
  };
  // A member that is laid over it with undefined is not there.
  return Object.fromEntries(
    Object.entries({ ...record, ...over }).filter(([, value]) => value !== undefined),
  ) as unknown as ExecutionRecord;
}
