import { z } from 'zod';
import { ADDS, READS } from '../../operations/operation.ts';
import { type AdminOperation, adminOperation, dataOf, ofOrg, pageQuery, sequence } from './admin-operation.ts';

/** Each is signed for whoever asks, and he needs no token. */
const MAX_CHECKPOINTS = 20;
const MAX_LINE = 512;
const COUNT_RULE = 'must be a whole number from 1 to 16';

const CHECKPOINT_QUERY = z
  .strictObject({
    sequence: sequence.optional().meta({ type: 'integer', minimum: 1, description: 'Of a root; left out: the published one' }),
    cosigned: z
      .string()
      .regex(/^(?:[1-9]|1[0-6])$/, COUNT_RULE)
      .transform(Number)
      .optional()
      .meta({ type: 'integer', minimum: 1, maximum: 16, description: 'The newest with so many cosignatures' }),
    format: z.enum(['text', 'json']).optional().meta({ description: 'Default `text`: the signed note; `json` says which root it is of' }),
  })
  .refine((query) => query.sequence === undefined || query.cosigned === undefined, {
    path: ['cosigned'],
    message: 'cannot stand beside `sequence`',
  });

const SHOWN = z.object({
  sequence: z.int().meta({ description: 'Of the root whose tree it is' }),
  published_at: z.string(),
  checkpoint: z.string().meta({ description: 'The signed note (C2SP tlog-checkpoint), cosignatures included' }),
  cosignatures: z.array(z.object({ witness: z.string(), time: z.string() })),
});
const COSIGNATURE_BODY = z.strictObject({
  sequence: z.int().min(1).meta({ description: 'Of the root whose checkpoint was cosigned' }),
  cosignature: z
    .string()
    .max(MAX_LINE)
    .meta({ description: 'One line of the signed note (C2SP tlog-cosignature, `cosignature/v1`), without its line end' }),
});

/**
 * Checkpoints of ledgers and what witnesses say of them: anybody's to read, and proved by themselves (decision 13.21).
 */
export const CHECKPOINT_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'checkpoint.read',
    method: 'GET',
    path: '/v1/orgs/{org}/checkpoint',
    scope: 'none',
    annotations: READS,
    summary: "The checkpoint of an org's ledger (C2SP tlog-checkpoint) with the cosignatures that witnesses gave it.",
    errors: ['not_found', 'conflict'],
    input: { params: ofOrg, query: { schema: () => CHECKPOINT_QUERY } },
    output: { status: 200, contentType: 'text/plain; charset=utf-8', also: 'application/json' },
    async handle({ params, query: { format, ...which } }, { state }) {
      const shown = await state.ledger.checkpoint(params.org, which);
      return format === 'json' ? { json: shown } : { text: shown.checkpoint };
    },
  }),
  adminOperation({
    id: 'checkpoint.list',
    method: 'GET',
    path: '/v1/orgs/{org}/checkpoints',
    scope: 'none',
    annotations: READS,
    summary: `Published checkpoints of an org in the order of their sequence, at most ${MAX_CHECKPOINTS} at once.`,
    errors: ['not_found'],
    input: { params: ofOrg, query: { schema: () => pageQuery(MAX_CHECKPOINTS) } },
    output: { status: 200, schema: dataOf(SHOWN) },
    handle: async ({ params, query: { after = 0, limit = MAX_CHECKPOINTS } }, { state }) => ({
      json: { data: await state.ledger.checkpoints(params.org, after, limit) },
    }),
  }),
  adminOperation({
    id: 'cosignature.add',
    method: 'POST',
    path: '/v1/orgs/{org}/cosignatures',
    scope: 'none',
    annotations: { ...ADDS, idempotent: true },
    summary: 'Takes the cosignature of a published checkpoint from a witness of `CP_WITNESS_KEYS`.',
    errors: ['not_found'],
    input: { params: ofOrg, body: { schema: () => COSIGNATURE_BODY, what: 'The cosignature' } },
    output: { status: 200, schema: SHOWN },
    // It proves itself; who brings it is nobody, and the trail of what people did has no entry of it.
    handle: async ({ params, body }, { state }) => ({ json: await state.ledger.cosign(params.org, body.sequence, body.cosignature) }),
  }),
];
