// Rows of the admin API's table: what people decide, and what is seen of the traffic.
import { callOf, HASH, MONEY, NOBODY, NOT_FOUND, type Row, TIME, UUID7 } from './admin-table-step.ts';

const APPROVAL = {
  approval_id: UUID7,
  org_id: 'acme',
  workload_id: 'default',
  caller_id: 'asker',
  status: 'pending',
  reason: 'large models are agreed on first',
  decided_by: null,
  created_at: TIME,
  decided_at: null,
  expires_at: TIME,
};
const HELD = {
  quarantine_id: UUID7,
  org_id: 'acme',
  workload_id: 'default',
  caller_id: String,
  caller_ip: '127.0.0.1',
  action_type: 'ai.infer',
  reason: 'odd behaviour',
  risk_score: Number,
  created_at: TIME,
  released_at: null,
  released_by: null,
};
const DAY = 'org_id=acme&from=2026-11-21T00:00:00Z&to=2026-11-22T00:00:00Z';

export const TRAFFIC_ROWS: readonly Row[] = [
  {
    row: 'GET /v1/admin/approvals',
    steps: [
      { ask: 'GET /v1/admin/approvals', status: 200, has: { items: [APPROVAL], next_page_token: UUID7 }, counts: { items: 20 } },
      { ask: 'GET /v1/admin/approvals?page_token={next_page_token}', status: 200, has: { next_page_token: null }, counts: { items: 2 } },
      { ask: 'GET /v1/admin/approvals?limit=22', status: 200, has: { next_page_token: null }, counts: { items: 22 } },
      { ask: 'GET /v1/admin/approvals?org_id=acme&workload_id=default&status=pending&limit=3', status: 200, counts: { items: 3 } },
      { ask: 'GET /v1/admin/approvals?status=denied', status: 200, counts: { items: 0 } },
      { ask: 'GET /v1/admin/approvals?org_id=other', status: 200, counts: { items: 0 } },
      { ask: 'GET /v1/admin/approvals?workload_id=other', status: 200, counts: { items: 0 } },
      { ask: 'GET /v1/admin/approvals?limit=0', status: 400 },
    ],
  },
  {
    row: 'GET /v1/admin/approvals/{id}; POST …/approve, …/deny',
    steps: [
      { ask: 'GET /v1/admin/approvals/{approval}', status: 200, has: APPROVAL },
      {
        ask: 'POST /v1/admin/approvals/{approval}/approve',
        body: { decided_by: 'ann' },
        status: 200,
        has: { approval_id: UUID7, status: 'approved', decided_by: 'ann', decided_by_principal: { kind: 'admin' }, decided_at: TIME },
      },
      { ask: 'POST /v1/admin/approvals/{approval}/deny', body: { decided_by: 'ann' }, status: 409 },
      {
        ask: 'POST /v1/admin/approvals/{other approval}/deny',
        body: { decided_by: 'bob' },
        status: 200,
        has: { status: 'denied', decided_by: 'bob', decided_by_principal: { kind: 'admin' }, decided_at: TIME },
      },
      { ask: `GET /v1/admin/approvals/${NOBODY}`, status: 404, has: NOT_FOUND },
      { ask: `POST /v1/admin/approvals/${NOBODY}/approve`, body: { decided_by: 'ann' }, status: 404, has: NOT_FOUND },
      { ask: `POST /v1/admin/approvals/${NOBODY}/deny`, body: { decided_by: 'ann' }, status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET /v1/admin/quarantine; POST …/{id}/release',
    steps: [
      { ask: 'GET /v1/admin/quarantine?limit=1', status: 200, has: { items: [HELD], next_page_token: UUID7 }, counts: { items: 1 } },
      { ask: 'GET /v1/admin/quarantine?page_token={next_page_token}', status: 200, has: { next_page_token: null }, counts: { items: 1 } },
      { ask: 'GET /v1/admin/quarantine?org_id=acme&workload_id=default', status: 200, counts: { items: 2 } },
      { ask: 'GET /v1/admin/quarantine?org_id=other', status: 200, counts: { items: 0 } },
      { ask: 'GET /v1/admin/quarantine?workload_id=other', status: 200, counts: { items: 0 } },
      {
        ask: 'POST /v1/admin/quarantine/{quarantine}/release',
        body: { released_by: 'ann' },
        status: 200,
        has: { quarantine_id: UUID7, released_by: 'ann', released_by_principal: { kind: 'admin' }, released_at: TIME },
      },
      { ask: 'GET /v1/admin/quarantine', status: 200, counts: { items: 2 } },
      { ask: `POST /v1/admin/quarantine/${NOBODY}/release`, body: { released_by: 'ann' }, status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'POST /v1/admin/stop, POST /v1/admin/resume; GET /v1/admin/stops',
    steps: [
      { ask: 'POST /v1/admin/stop', body: { scope: {}, reason: 'leak' }, status: 400 },
      {
        ask: 'POST /v1/admin/stop',
        body: { scope: { model: 'gpt-4o-mini' }, reason: 'leak', confirm: 'stop' },
        status: 201,
        has: { stop_id: UUID7, scope: { model: 'gpt-4o-mini' }, reason: 'leak', created_at: TIME, created_by: 'admin' },
      },
      { ask: 'GET /v1/admin/stops', status: 200, counts: { stops: 1 } },
      { ask: 'GET /v1/admin/stops?org_id=acme', status: 200, counts: { stops: 0 } },
      { ask: 'POST /v1/actions:execute', body: callOf('gpt-4o-mini'), status: 403, has: { reason_codes: ['stopped'] } },
      { ask: 'POST /v1/admin/resume', body: { stop_id: '{stop_id}', scope: {} }, status: 400 },
      { ask: 'POST /v1/admin/resume', body: { stop_id: NOBODY }, status: 404, has: NOT_FOUND },
      { ask: 'POST /v1/admin/resume', body: { scope: { model: 'gpt-4o-mini' } }, status: 200, counts: { resumed: 1 } },
      { ask: 'GET /v1/admin/stops', status: 200, counts: { stops: 0 } },
    ],
  },
  {
    row: 'GET /v1/admin/org; POST …/suspend, …/reactivate',
    steps: [
      { ask: 'GET /v1/admin/org', status: 200, has: { org_id: 'acme', status: 'active' }, lacks: 'suspended_reason' },
      { ask: 'POST /v1/admin/org/suspend', body: { reason: 'unpaid' }, status: 200, has: { status: 'suspended' } },
      { ask: 'GET /v1/admin/org', status: 200, has: { status: 'suspended', suspended_reason: 'unpaid' } },
      { ask: 'POST /v1/actions:execute', body: callOf('gpt-4o-mini'), status: 403, has: { error: 'org_suspended' } },
      { ask: 'POST /v1/admin/org/reactivate', status: 200, has: { status: 'active' } },
      { ask: 'POST /v1/admin/org/suspend', status: 200, has: { status: 'suspended' }, lacks: 'suspended_reason' },
      { ask: 'POST /v1/admin/org/suspend', body: { reason: '' }, status: 200, has: { status: 'suspended' }, lacks: 'suspended_reason' },
      { ask: 'POST /v1/admin/org/reactivate', status: 200, has: { status: 'active' }, lacks: 'suspended_reason' },
      { ask: 'GET /v1/admin/org', at: 'bare', status: 404, has: NOT_FOUND },
      { ask: 'POST /v1/admin/org/suspend', at: 'bare', status: 404, has: NOT_FOUND },
      { ask: 'POST /v1/admin/org/reactivate', at: 'bare', status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET, DELETE /v1/admin/discovery/domains',
    steps: [
      {
        ask: 'GET /v1/admin/discovery/domains',
        status: 200,
        has: { domains: [{ domain: 'api.openai.com', requests: Number }] },
        counts: { domains: 1 },
      },
      { ask: 'GET /v1/admin/discovery/domains?managed=true', status: 200, counts: { domains: 1 } },
      { ask: 'GET /v1/admin/discovery/domains?managed=false', status: 200, counts: { domains: 0 } },
      { ask: 'GET /v1/admin/discovery/domains?managed=perhaps', status: 400 },
      { ask: 'DELETE /v1/admin/discovery/domains', status: 204, has: '' },
      { ask: 'GET /v1/admin/discovery/domains', status: 200, counts: { domains: 0 } },
      { ask: 'GET /v1/admin/discovery/domains', at: 'bare', status: 404, has: NOT_FOUND },
      { ask: 'DELETE /v1/admin/discovery/domains', at: 'bare', status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET /v1/dashboard/summary',
    steps: [
      {
        ask: `GET /v1/dashboard/summary?${DAY}`,
        status: 200,
        has: {
          org_id: 'acme',
          from: '2026-11-21T00:00:00.000Z',
          to: '2026-11-22T00:00:00.000Z',
          total_requests: Number,
          total_allowed: 1,
          total_denied: Number,
          total_tokens_in: 11,
          total_tokens_out: 7,
          total_cost_usd: MONEY,
        },
      },
      {
        ask: 'GET /v1/dashboard/summary?org_id=other',
        as: 'bearer',
        status: 200,
        has: { org_id: 'other', total_requests: 0, total_cost_usd: '0' },
      },
      { ask: 'GET /v1/dashboard/summary', as: 'nobody', status: 401 },
      { ask: 'GET /v1/dashboard/summary?from=yesterday', status: 400 },
    ],
  },
  {
    row: 'GET /v1/dashboard/decisions',
    steps: [
      { ask: `GET /v1/dashboard/decisions?${DAY}`, status: 200, has: [{ decision: 'allow', count: 1 }] },
      { ask: 'GET /v1/dashboard/decisions?org_id=other', status: 200, has: [], lacks: 'decision' },
    ],
  },
  {
    row: 'GET /v1/verify/{record_hash}',
    steps: [
      { ask: 'GET /v1/verify/{hash}', status: 200, has: { status: 'pending_inclusion', record_hash: HASH } },
      { ask: `GET /v1/verify/${'0'.repeat(64)}`, status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET /v1/records/{id}',
    steps: [
      {
        ask: 'GET /v1/records/{record}',
        status: 200,
        has: {
          record_id: UUID7,
          record_hash: HASH,
          org_id: 'acme',
          workload_id: 'default',
          caller_id: 'caller',
          caller_ip: '127.0.0.1',
          node_id: 'n-1',
          decision: 'allow',
          reason_codes: [],
          action_type: 'ai.infer',
          target: 'https://api.openai.com/v1/chat/completions',
          connection_type: 'direct_api',
          traffic_class: String,
          connector_version: String,
          policy_trace: { bundle_id: 'test', version: '7', matched_rule_ids: [String] },
          metering: { tokens_in: 11, tokens_out: 7, cost_usd: MONEY },
        },
      },
      { ask: `GET /v1/records/${NOBODY}`, status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET /v1/proxy/ca.crt',
    steps: [
      { ask: 'GET /v1/proxy/ca.crt', as: 'nobody', status: 200, has: /^-----BEGIN CERTIFICATE-----\n/ },
      { ask: 'GET /v1/proxy/ca.crt', as: 'nobody', at: 'bare', status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET /v1/reports/usage, /v1/reports/spend',
    steps: [
      {
        ask: 'GET /v1/reports/usage',
        as: 'api key',
        status: 200,
        has: { workloads: [{ workload_id: 'default', tokens_in: 11, tokens_out: 7, requests: Number }] },
      },
      { ask: 'GET /v1/reports/spend', as: 'api key', status: 200, has: { providers: [{ provider: 'openai', cost_usd: MONEY }] } },
      { ask: 'GET /v1/reports/usage', as: 'nobody', status: 401 },
      { ask: 'GET /v1/reports/spend', as: 'nobody', status: 401 },
    ],
  },
  {
    row: 'GET /v1/admin/billing/summary',
    steps: [
      {
        ask: 'GET /v1/admin/billing/summary',
        status: 200,
        has: { period: '2026-11', total_requests: Number, total_cost_usd: MONEY, breakdown: { default: { openai: { cost_usd: MONEY } } } },
      },
      {
        ask: 'GET /v1/admin/billing/summary?period=2026-10',
        status: 200,
        has: { period: '2026-10', total_requests: 0, total_cost_usd: '0' },
      },
      { ask: 'GET /v1/admin/billing/summary?period=2026-13', status: 400 },
    ],
  },
  {
    row: 'GET /v1/admin/billing/export.csv',
    steps: [
      {
        ask: 'GET /v1/admin/billing/export.csv?period=2026-11',
        status: 200,
        has: /^period,org_id,workload_id,connector_id,request_count,tokens_in,tokens_out,cost_usd\r?\n2026-11,acme,default,/,
      },
    ],
  },
];
