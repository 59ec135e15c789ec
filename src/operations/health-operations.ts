import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import { NOT_READY } from '../base/model/not-ready.ts';
import { optional } from './members.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import type { ControlPlaneHealth, OperationServices } from './services.ts';
import { BACKLOG } from './shapes.ts';

export const HEALTH = z.object({
  status: z.enum(['starting', 'ok']),
  node_id: z.string(),
  mode: z.enum(['embedded', 'distributed']).meta({ description: '`distributed`: this gateway shares a database with others' }),
  backlog: BACKLOG.meta({ description: 'What is not in the database yet; zeros where there is none' }),
  connectors: z.array(z.object({ id: z.string(), version: z.string(), healthy: z.boolean() })),
  cp_status: z.enum(['connected', 'offline', 'unconfigured']),
  cp_posture: z.enum(['normal', 'permissive', 'strict']).optional().meta({
    description: 'What holds without contact: `normal` within the grace period, then as the org says; absent without a control plane',
  }),
  cp_offline_since: z.string().optional().meta({ description: 'RFC 3339; only while `offline`' }),
  cp_certificate_expires_at: z.string().optional().meta({ description: 'RFC 3339: of this node; absent without a control plane' }),
  last_hash_submit_at: z.string().optional().meta({ description: 'When the control plane last took hashes of records, RFC 3339' }),
  bundle_id: z.string(),
  bundle_version: z.string().meta({ description: 'Of one from a control plane: as it was signed there' }),
  bundle_sequence: z.int().optional().meta({ description: 'Of one from a control plane' }),
  bundle_kid: z.string().optional().meta({ description: 'Of one from a control plane: the key that has signed it' }),
  warnings: z.array(z.object({ code: z.string(), message: z.string() })),
});

const READINESS = z.object({
  status: z.enum(['ready', ...NOT_READY]),
  reasons: z.array(z.enum(NOT_READY)).optional(),
});

/** What health says of the control plane (specification, "Health response"; decision 13.8). */
function controlPlaneOf(
  link: ControlPlaneHealth | undefined,
): Pick<z.output<typeof HEALTH>, 'cp_status' | 'cp_posture' | 'cp_offline_since' | 'cp_certificate_expires_at' | 'last_hash_submit_at'> {
  if (link === undefined) return { cp_status: 'unconfigured' };
  const { status, posture, offlineSince } = link.contact;
  const { lastSubmitAt } = link.submission;
  return {
    cp_status: status,
    cp_posture: posture,
    ...(offlineSince === undefined ? {} : { cp_offline_since: timestamp(offlineSince) }),
    cp_certificate_expires_at: timestamp(link.certificateExpiresAt),
    ...(lastSubmitAt === undefined ? {} : { last_hash_submit_at: lastSubmitAt }),
  };
}

export function healthOf(health: OperationServices['health']): z.output<typeof HEALTH> {
  const { bundle_id, version, sequence, kid } = health.bundle();
  return {
    status: health.readiness.starting ? 'starting' : 'ok',
    node_id: health.nodeId,
    mode: health.cluster === undefined ? 'embedded' : 'distributed',
    backlog: health.cluster?.health().backlog ?? { records: 0, seconds: 0 },
    connectors: [...health.connectors()],
    ...controlPlaneOf(health.controlPlane),
    bundle_id,
    bundle_version: version,
    ...optional('bundle_sequence', sequence),
    ...optional('bundle_kid', kid),
    warnings: [...health.readiness.warnings(), ...(health.controlPlane?.warnings() ?? [])],
  };
}

/** Health (specification, "Health response"), and what this gateway can be asked. */
export const HEALTH_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'health.read',
    method: 'GET',
    path: '/healthz',
    scope: 'none',
    ambient: true,
    summary: 'Liveness, connectors and the active bundle; `starting` during the start-up grace.',
    annotations: READS,
    output: { status: 200, schema: HEALTH },
    handle: (_call, { health }) => ({ json: healthOf(health) }),
  }),
  operation({
    id: 'mgmt.health.read',
    method: 'GET',
    path: '/mgmt/v1/health',
    scope: 'read',
    summary: 'Whether the gateway takes calls: readiness, failing connectors, policy in force, control plane, warnings.',
    annotations: READS,
    tools: [{ name: 'get_health', title: 'Get health of the gateway' }],
    output: { status: 200, schema: HEALTH.extend({ ready: z.boolean(), not_ready: z.array(z.enum(NOT_READY)) }) },
    handle: (_call, { health }) => {
      const reasons = health.readiness.reasons();
      return { json: { ...healthOf(health), ready: reasons.length === 0, not_ready: [...reasons] } };
    },
  }),
  operation({
    id: 'health.ready',
    method: 'GET',
    path: '/readyz',
    scope: 'none',
    ambient: true,
    summary:
      'Readiness: 200 when calls should be sent here; 503 with `reasons` while starting, while draining, while nothing can be stored, and while every call would be refused.',
    annotations: READS,
    output: { status: 200, otherStatuses: [503], schema: READINESS },
    handle: (_call, { health }) => {
      const reasons = health.readiness.reasons();
      const [status] = reasons;
      return status === undefined ? { json: { status: 'ready' as const } } : { status: 503 as const, json: { status, reasons } };
    },
  }),
  operation({
    id: 'api.describe',
    method: 'GET',
    path: '/v1/openapi.json',
    scope: 'none',
    summary: 'What can be asked of this gateway, as an OpenAPI 3.1 document.',
    annotations: READS,
    output: { status: 200, schema: z.looseObject({ openapi: z.literal('3.1.0') }) },
    handle: (_call, { description }) => ({ bytes: description('all') }),
  }),
  operation({
    id: 'management.describe',
    method: 'GET',
    path: '/mgmt/v1/openapi.json',
    scope: 'none',
    summary: 'What can be asked of the management API, as an OpenAPI 3.1 document.',
    annotations: READS,
    output: { status: 200, schema: z.looseObject({ openapi: z.literal('3.1.0') }) },
    handle: (_call, { description }) => ({ bytes: description('management') }),
  }),
];
