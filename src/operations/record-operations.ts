import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Principal } from '../base/model/principal.ts';
import type { Store, StoredRecord } from '../storage/contract/store.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { time } from './shapes.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** What each record has; the others depend on its door and its decision. */
export const RECORD: z.ZodObject<z.core.$ZodLooseShape, z.core.$loose> = z.looseObject({
  schema: z.string(),
  record_id: z.string(),
  record_hash: z.string().meta({ description: 'Hex SHA-256 of the record without this member, as canonical JSON' }),
  org_id: z.string(),
  decision: z.string(),
  reason_codes: z.array(z.string()),
  created_at: time,
  completed_at: time,
});

/** Records and what can be proven about them (specification, "Gateway admin API"; decisions 3.6, 7.1). */
export const RECORD_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'records.read',
    method: 'GET',
    path: '/v1/records/{id}',
    scope: 'org',
    summary: 'One execution record, byte for byte as it was hashed.',
    annotations: READS,
    errors: ['not_found'],
    input: { params: z.object({ id: z.string().meta({ description: 'Record id, a UUID' }) }) },
    output: { status: 200, schema: RECORD },
    handle: async ({ principal, params }, { store }) => {
      const id = params.id.toLowerCase();
      const found = UUID.test(id) ? await findRecord(store, id, principal) : undefined;
      if (!found) throw new GatewayError('not_found', `There is no record ${id}.`);
      return { text: found.text };
    },
  }),
  operation({
    id: 'records.verify',
    method: 'GET',
    path: '/v1/verify/{record_hash}',
    scope: 'org',
    summary: 'Whether a record hash is included in a signed root; `pending_inclusion` while no control plane is connected.',
    annotations: READS,
    errors: ['not_found', 'ledger_proof_invalid', 'control_plane_unreachable'],
    input: { params: z.object({ record_hash: z.string().meta({ description: 'Hex SHA-256' }) }) },
    output: {
      status: 200,
      schema: z.object({
        status: z.enum(['verified', 'pending_inclusion']),
        record_hash: z.string(),
        inclusion_proof: z
          .looseObject({})
          .optional()
          .meta({ description: '`gw.inclusion_proof.v1` with its signed root, checked here; only when `verified`' }),
        cut_by_restore: z
          .looseObject({})
          .optional()
          .meta({ description: 'The restore of the control plane that has cut the span of this proof: a new one is under way' }),
      }),
    },
    handle: async ({ principal, params }, { store, ledger }) => {
      const hash = params.record_hash.toLowerCase();
      const found = SHA256.test(hash) ? await findRecord(store, hash, principal) : undefined;
      if (!found) throw new GatewayError('not_found', 'No record has this hash.');
      const { record_id: id } = JSON.parse(found.text) as ExecutionRecord;
      const known = (await ledger?.inclusion({ id, hash })) ?? { status: 'pending_inclusion' as const };
      if (known.status !== 'verified') return { json: { status: known.status, record_hash: hash } };
      const { status, inclusion_proof: proof, cut_by_restore: cut } = known;
      return { json: { status, record_hash: hash, inclusion_proof: { ...proof }, ...(cut && { cut_by_restore: { ...cut } }) } };
    },
  }),
];

/** A record by its id or its hash; undefined when there is none that whoever asks may read. */
export async function findRecord(
  store: Pick<Store, 'recordById' | 'recordByHash'>,
  name: string,
  principal: Principal,
): Promise<StoredRecord | undefined> {
  const text = name.toLowerCase();
  const byHash = SHA256.test(text) ? store.recordByHash(text) : undefined;
  const found = await (byHash ?? (UUID.test(text) ? store.recordById(text) : undefined));
  return found && mayRead(principal, found) ? found : undefined;
}

/** Records of another org are as if they were not there. */
function mayRead({ orgId }: Principal, { text }: StoredRecord): boolean {
  return orgId === undefined || (JSON.parse(text) as ExecutionRecord).org_id === orgId;
}
