import { z } from 'zod';
import { parseTime } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { CertificateAuthorityError } from '../inbound/ca/root-files.ts';
import type { Commit } from '../services/registers/commit.ts';
import { members } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { time } from './shapes.ts';

/** Where the audit trail finds what was changed. */
const SPACE = 'root_certificates';
const KEY = 'rotation';

const STATUS = z.object({
  roots: z.array(
    z.object({
      fingerprint: z.string().meta({ description: 'SHA-256 of the DER, lower-case hex' }),
      subject: z.string(),
      role: z.enum(['signs', 'next', 'former']),
      not_before: time,
      not_after: time,
    }),
  ),
  switch_at: time.nullable().meta({ description: 'When the next one signs; null: there is none' }),
  made_here: z.boolean().meta({ description: 'false: the root is an operator’s own, and only he can replace it' }),
});

const BODY = members({
  switch_at: z
    .string()
    .refine((value) => parseTime(value) !== undefined, 'must be a time, as RFC 3339 writes it')
    .meta({ format: 'date-time', description: 'When the next root signs; what has passed means at once' }),
});

function authority({ trust }: OperationServices) {
  if (trust.ca) return trust.ca;
  throw new GatewayError('not_found', 'Interception is off (GW_PROXY_MITM_ENABLED=false), so there is no root certificate.');
}

/** The entry of the audit trail comes first: a change that cannot be told is not made. */
function telling(commit: Commit) {
  return (object: string, value: unknown) => commit(object, [{ op: 'put', space: SPACE, key: KEY, value }]);
}

/**
 * A folder that cannot be written (a full disk, a right that is missing) is no fault of ours: all is as before, or is
 * made whole by the next try (decision 12.10).
 * @throws GatewayError `folder_not_writable`
 */
async function writing<T>(change: Promise<T>): Promise<T> {
  try {
    return await change;
  } catch (error) {
    if (!(error instanceof CertificateAuthorityError)) throw error;
    // biome-ignore lint/style/useErrorCause: the cause is in the third argument
    throw new GatewayError('folder_not_writable', `The roots stay as they are: ${error.message}.`, { cause: error });
  }
}

/** Another root in the place of the one that signs, without a time at which clients trust none (decision 12.10). */
export const ROOT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'ca.read',
    method: 'GET',
    path: '/v1/admin/ca',
    scope: 'admin',
    summary: 'The roots that clients are to trust: the one that signs, a next one and when it will, and former ones.',
    annotations: READS,
    errors: ['not_found'],
    output: { status: 200, schema: STATUS },
    available: authority,
    handle: (_call, services) => ({ json: authority(services).status() }),
  }),
  operation({
    id: 'ca.rotate',
    method: 'POST',
    path: '/v1/admin/ca/rotate',
    scope: 'admin',
    summary: 'Makes a next root, which is handed out beside the present one at once and signs from `switch_at` on.',
    annotations: ADDS,
    errors: ['not_found', 'conflict', 'folder_not_writable'],
    input: { body: { schema: () => BODY, what: 'The rotation' } },
    output: { status: 200, schema: STATUS },
    available: authority,
    handle: async ({ body, commit }, services) => ({
      json: await writing(authority(services).rotate(parseTime(body.switch_at) ?? 0, telling(commit))),
    }),
  }),
  operation({
    id: 'ca.cancel',
    method: 'POST',
    path: '/v1/admin/ca/cancel',
    scope: 'admin',
    summary: 'Gives the next root up; 409 when there is none, also because it signs already.',
    annotations: REMOVES,
    errors: ['not_found', 'conflict', 'folder_not_writable'],
    output: { status: 200, schema: STATUS },
    available: authority,
    handle: async ({ commit }, services) => ({ json: await writing(authority(services).cancelRotation(telling(commit))) }),
  }),
  operation({
    id: 'ca.finish',
    method: 'POST',
    path: '/v1/admin/ca/finish',
    scope: 'admin',
    summary: 'Stops handing former roots out; 409 when there is none, and while one of them has signed the certificate of the ports.',
    annotations: REMOVES,
    errors: ['not_found', 'conflict', 'folder_not_writable'],
    output: { status: 200, schema: STATUS },
    available: authority,
    handle: async ({ commit }, services) => ({
      json: await writing(authority(services).finishRotation(telling(commit), () => services.trust.portIssuer?.mayDropFormer())),
    }),
  }),
];
