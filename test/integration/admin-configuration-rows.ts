// Rows of the admin API's table: what is configured.
import { bundleOf } from '../support/governed.ts';
import { callOf, NOT_FOUND, type Row, SECRET, TIME, UUID7 } from './admin-table-step.ts';

const POLICY = { bundle_id: 'test', version: '7', source: 'file', loaded_at: TIME };
const CREDENTIAL = { credential_id: 'main', org_id: 'acme', connector_id: 'openai', mode: 'alias' };
const WORKLOAD = {
  workload_id: 'ci',
  org_id: 'acme',
  name: 'CI',
  allowed_connection_types: ['direct_api'],
  default_attribution: { customer_id: 'c', account_id: 'a', project_id: 'p', labels: { team: 'x' } },
};
const LIMITER = { refill_rate: 120, max_tokens: 60, window_duration: '1m' };

export const CONFIGURATION_ROWS: readonly Row[] = [
  {
    row: 'GET /healthz',
    steps: [
      {
        ask: 'GET /healthz',
        as: 'nobody',
        status: 200,
        has: {
          status: 'ok',
          node_id: String,
          connectors: [{ id: 'openai', version: String, healthy: true }],
          cp_status: 'unconfigured',
          bundle_id: 'test',
          bundle_version: '7',
        },
      },
    ],
  },
  {
    row: 'GET /metrics',
    steps: [
      { ask: 'GET /metrics', status: 200, has: /^gw_requests_total\{.*\} \d+$/m },
      { ask: 'GET /metrics', at: 'bare', status: 404 },
    ],
  },
  {
    row: 'GET, PUT, DELETE /v1/admin/credentials',
    steps: [
      { ask: 'PUT /v1/admin/credentials', body: { ...CREDENTIAL, secret_ref: SECRET }, status: 200, has: CREDENTIAL, lacks: SECRET },
      { ask: 'PUT /v1/admin/credentials', body: { ...CREDENTIAL, name: 'n' }, status: 200, has: { ...CREDENTIAL, name: 'n' } },
      { ask: 'GET /v1/admin/credentials', status: 200, has: { credentials: [CREDENTIAL] }, counts: { credentials: 1 }, lacks: SECRET },
      { ask: 'GET /v1/admin/credentials', as: 'bearer', status: 200, has: { credentials: [CREDENTIAL] } },
      { ask: 'GET /v1/admin/credentials', as: 'nobody', status: 401 },
      { ask: 'DELETE /v1/admin/credentials/main', status: 200, has: { credential_id: 'main' } },
      { ask: 'DELETE /v1/admin/credentials/main', status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'POST /v1/admin/credentials/reload',
    steps: [
      { ask: 'PUT /v1/admin/credentials', body: { ...CREDENTIAL, credential_id: 'in-file', mode: 'byok' }, status: 200 },
      { ask: 'POST /v1/admin/credentials/reload', status: 200, has: { credentials: ['in-file'] } },
      { ask: 'GET /v1/admin/credentials', status: 200, has: { credentials: [{ credential_id: 'in-file', mode: 'alias' }] } },
      { ask: 'DELETE /v1/admin/credentials/in-file', status: 200 },
    ],
  },
  {
    row: 'GET, PUT, DELETE /v1/admin/workloads',
    steps: [
      { ask: 'PUT /v1/admin/workloads', body: WORKLOAD, status: 200, has: WORKLOAD },
      { ask: 'PUT /v1/admin/workloads', body: { ...WORKLOAD, name: 'other' }, status: 200, has: { name: 'other' } },
      { ask: 'GET /v1/admin/workloads', status: 200, has: { workloads: [{ ...WORKLOAD, name: 'other' }] } },
      { ask: 'PUT /v1/admin/workloads', body: { ...WORKLOAD, allowed_connection_types: ['by_foot'] }, status: 400 },
      { ask: 'DELETE /v1/admin/workloads/ci', status: 200, has: { workload_id: 'ci' } },
      { ask: 'DELETE /v1/admin/workloads/ci', status: 404, has: NOT_FOUND },
    ],
  },
  {
    row: 'GET, PUT /v1/admin/policies; POST …/reload',
    steps: [
      { ask: 'GET /v1/admin/policies', status: 200, has: POLICY },
      { ask: 'PUT /v1/admin/policies', body: { bundle_yaml: bundleOf('') }, status: 200, has: { ...POLICY, source: 'api' } },
      { ask: 'POST /v1/actions:execute', body: callOf('gpt-4o-mini'), status: 403, has: { decision: 'deny' } },
      {
        ask: 'PUT /v1/admin/policies',
        body: { bundle_yaml: 'bundle_id: x\nversion: "1"\n' },
        status: 400,
        has: { error: { message: String } },
      },
      { ask: 'PUT /v1/admin/policies', body: {}, status: 400 },
      { ask: 'GET /v1/admin/policies', status: 200, has: { ...POLICY, source: 'api' } },
      { ask: 'POST /v1/admin/policies/reload', status: 200, has: POLICY },
      { ask: 'GET /v1/admin/policies', status: 200, has: POLICY },
      { ask: 'DELETE /v1/admin/policies', status: 405 },
    ],
  },
  {
    row: 'GET /v1/admin/connectors',
    steps: [
      {
        ask: 'GET /v1/admin/connectors',
        status: 200,
        has: { connectors: [{ connector_id: 'openai', provider: 'openai', target_host: 'api.openai.com', status: 'no_credential' }] },
      },
      { ask: 'PUT /v1/admin/credentials', body: { ...CREDENTIAL, secret_ref: SECRET }, status: 200 },
      { ask: 'GET /v1/admin/connectors', status: 200, has: { connectors: [{ connector_id: 'openai', status: 'ok' }] } },
      { ask: 'DELETE /v1/admin/credentials/main', status: 200 },
    ],
  },
  {
    row: 'GET /v1/admin/nodes',
    steps: [
      {
        ask: 'GET /v1/admin/nodes',
        status: 200,
        has: { nodes: [{ node_id: 'n-1', registered_at: TIME, mode: 'embedded' }] },
        counts: { nodes: 1 },
      },
    ],
  },
  {
    row: 'DELETE /v1/admin/nodes/{id}',
    steps: [
      { ask: 'DELETE /v1/admin/nodes/n-1', status: 409 },
      { ask: 'DELETE /v1/admin/nodes/none', status: 404 },
    ],
  },
  { row: 'GET /v1/admin/ratelimit/keys', steps: [{ ask: 'GET /v1/admin/ratelimit/keys', status: 200, has: { keys: ['default'] } }] },
  {
    row: 'GET, PUT /v1/admin/ratelimit/config',
    steps: [
      { ask: 'GET /v1/admin/ratelimit/config', status: 200, has: { refill_rate: Number, max_tokens: Number, window_duration: '1m' } },
      { ask: 'PUT /v1/admin/ratelimit/config', body: LIMITER, status: 200, has: LIMITER },
      { ask: 'GET /v1/admin/ratelimit/config', status: 200, has: LIMITER },
      { ask: 'PUT /v1/admin/ratelimit/config', body: { ...LIMITER, refill_rate: 0 }, status: 400 },
      { ask: 'PUT /v1/admin/ratelimit/config', body: { ...LIMITER, max_tokens: 0 }, status: 400 },
      { ask: 'PUT /v1/admin/ratelimit/config', body: { ...LIMITER, window_duration: 'soon' }, status: 400 },
    ],
  },
  {
    row: 'POST /v1/admin/mgmt-keys',
    steps: [
      {
        ask: 'POST /v1/admin/mgmt-keys',
        body: { org_id: 'acme', name: 'first', kind: 'management', scopes: ['read', 'write'] },
        status: 201,
        has: {
          id: UUID7,
          org_id: 'acme',
          kind: 'management',
          name: 'first',
          scopes: ['read', 'write'],
          created_at: TIME,
          expires_at: null,
        },
      },
      { ask: 'POST /v1/admin/mgmt-keys', as: 'nobody', body: {}, status: 401 },
    ],
  },
  {
    row: 'without a control plane there is no kept bundle and no list of add-ons',
    steps: [
      { ask: 'DELETE /v1/admin/policy/cache', status: 200, has: { status: 'no_cache' } },
      { ask: 'GET /v1/orgs/acme/addons', status: 404 },
      { ask: 'POST /v1/orgs/acme/addons/x/enable', status: 404 },
      { ask: 'POST /v1/orgs/acme/addons/provider-openai/disable', status: 200, has: { enabled: false, enabled_at: null } },
      { ask: 'POST /v1/orgs/acme/addons/provider-openai/enable', status: 200, has: { addon_id: 'provider-openai', enabled: true } },
    ],
  },
];
