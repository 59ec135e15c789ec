import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { READS } from '../../operations/operation.ts';
import { type AdminOperation, adminOperation, dataOf, noSuch, ofOrg, org, pageQuery, sequence } from './admin-operation.ts';
import { CHECKPOINT_ADMIN_OPERATIONS } from './checkpoint-admin-operations.ts';

const MAX_ROOTS = 500;
/** A stamp is ten times as large as a root. */
const MAX_STAMPS = 100;
/** So is an entry of a log. */
const MAX_ENTRIES = 100;
const HASH = /^[0-9a-f]{64}$/i;

const SIGNATURE = z.object({ alg: z.string(), kid: z.string(), sig: z.string() });
const ROOT = z.object({
  schema: z.string(),
  batch_id: z.string(),
  org_id: z.string(),
  sequence: z.int(),
  prev_root_hash: z.string(),
  root_hash: z.string(),
  leaf_count: z.int(),
  tree_size: z.int().optional().meta({ description: 'Hashes under all roots up to this one; absent in roots of before' }),
  tree_hash: z.string().optional().meta({ description: 'Root of the tree of all of them' }),
  closed_at: z.string(),
  restored: z
    .object({ epoch: z.int(), from_sequence: z.int(), at: z.string(), reason: z.string().optional() })
    .optional()
    .meta({ description: 'The first root after a restore from a backup: roots behind `from_sequence` are cut' }),
  sig: SIGNATURE,
});
const PROOF = z.object({
  schema: z.string(),
  record_hash: z.string(),
  batch_id: z.string(),
  leaf_index: z.int(),
  leaf_count: z.int(),
  path: z.array(z.object({ side: z.enum(['left', 'right']), hash: z.string() })),
  root: ROOT,
});

const TIMESTAMP = z.object({
  sequence: z.int().meta({ description: 'Of the root; its imprint is SHA-256 of the RFC 8785 form of the signed root' }),
  time: z.string(),
  token: z.string().meta({ description: 'RFC 3161 TimeStampToken, DER in base64' }),
});
const LOG_ENTRY = z.object({
  sequence: z.int().meta({ description: 'Of the root' }),
  time: z.string().meta({ description: 'When the log took it' }),
  uuid: z.string().meta({ description: 'Its name in the log, which ends with its leaf hash' }),
  entry: z
    .object({
      body: z
        .string()
        .meta({ description: 'What stands in the log, base64: a `dsse` 0.0.1 entry whose `payloadHash` is SHA-256 of the root' }),
      integratedTime: z.int(),
      logID: z.string(),
      logIndex: z.int(),
      verification: z.object({
        signedEntryTimestamp: z.string(),
        inclusionProof: z.object({
          checkpoint: z.string(),
          hashes: z.array(z.string()),
          logIndex: z.int(),
          rootHash: z.string(),
          treeSize: z.int(),
        }),
      }),
    })
    .meta({ description: 'In the form of the API of Rekor, version 1' }),
});
const TREE = z.object({ sequence: z.int(), tree_size: z.int(), tree_hash: z.string() });
const CONSISTENCY = z.object({ first: TREE, second: TREE, path: z.array(z.string()) });

const CONSISTENCY_QUERY = z
  .strictObject({
    first: sequence.meta({ type: 'integer', minimum: 1, description: 'The `sequence` of a root that somebody remembers' }),
    second: sequence.meta({ type: 'integer', minimum: 1, description: 'The `sequence` of a later root, or the same' }),
  })
  .refine(({ first, second }) => first <= second, { path: ['first'], message: 'must not be above `second`' });

const PAGE_QUERY = pageQuery(MAX_ROOTS);

/** What anybody may see of the ledger: nothing of it is secret, and none of it needs to be believed (decision 13.6). */
export const LEDGER_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'root.list',
    method: 'GET',
    path: '/v1/orgs/{org}/roots',
    scope: 'none',
    annotations: READS,
    summary: `Signed roots of an org in the order of their sequence, at most ${MAX_ROOTS} at once.`,
    errors: ['not_found'],
    input: { params: ofOrg, query: { schema: () => PAGE_QUERY } },
    output: { status: 200, schema: dataOf(ROOT) },
    handle: async ({ params, query: { after = 0, limit = MAX_ROOTS } }, { state }) => ({
      json: { data: await state.ledger.roots(params.org, after, limit) },
    }),
  }),
  adminOperation({
    id: 'proof.read',
    method: 'GET',
    path: '/v1/orgs/{org}/proofs/{hash}',
    scope: 'none',
    annotations: READS,
    summary: "The inclusion proof of a record's hash, which may be submitted and not yet under a root (409).",
    errors: ['not_found', 'conflict'],
    input: {
      params: z.object({ org, hash: z.string().regex(HASH, 'must be 64 hexadecimal digits').meta({ description: 'Hash of a record' }) }),
    },
    output: { status: 200, schema: PROOF },
    handle: async ({ params: { org: orgId, hash } }, { state }) => {
      const found = await state.ledger.inclusion(orgId, Buffer.from(hash, 'hex'));
      if (found.status === 'verified') return { json: found.proof };
      if (found.status === 'unknown') throw noSuch(`record of the org ${orgId} with this hash`);
      throw new GatewayError('conflict', 'This hash is not under a root yet: ask again in a second.');
    },
  }),
  adminOperation({
    id: 'consistency.read',
    method: 'GET',
    path: '/v1/orgs/{org}/consistency',
    scope: 'none',
    annotations: READS,
    summary:
      'The proof that the tree of one root goes on in that of a later one; 409 where one of them was signed before roots had a tree.',
    errors: ['not_found', 'conflict'],
    input: { params: ofOrg, query: { schema: () => CONSISTENCY_QUERY } },
    output: { status: 200, schema: CONSISTENCY },
    handle: async ({ params, query: { first, second } }, { state }) => ({
      json: await state.ledger.consistency(params.org, first, second),
    }),
  }),
  adminOperation({
    id: 'timestamp.list',
    method: 'GET',
    path: '/v1/orgs/{org}/timestamps',
    scope: 'none',
    annotations: READS,
    summary: `Time stamps (RFC 3161) of roots of an org in the order of their sequence, at most ${MAX_STAMPS} at once.`,
    errors: ['not_found'],
    input: { params: ofOrg, query: { schema: () => PAGE_QUERY } },
    output: { status: 200, schema: dataOf(TIMESTAMP) },
    handle: async ({ params, query: { after = 0, limit = MAX_STAMPS } }, { state }) => ({
      json: { data: await state.ledger.timestamps(params.org, after, Math.min(limit, MAX_STAMPS)) },
    }),
  }),
  adminOperation({
    id: 'log_entry.list',
    method: 'GET',
    path: '/v1/orgs/{org}/log-entries',
    scope: 'none',
    annotations: READS,
    summary: `Entries of roots of an org in a transparency log, in the order of their sequence, at most ${MAX_ENTRIES} at once.`,
    errors: ['not_found'],
    input: { params: ofOrg, query: { schema: () => PAGE_QUERY } },
    output: { status: 200, schema: dataOf(LOG_ENTRY) },
    handle: async ({ params, query: { after = 0, limit = MAX_ENTRIES } }, { state }) => ({
      json: { data: await state.ledger.logEntries(params.org, after, Math.min(limit, MAX_ENTRIES)) },
    }),
  }),
  ...CHECKPOINT_ADMIN_OPERATIONS,
  adminOperation({
    id: 'ca.read',
    method: 'GET',
    path: '/v1/ca.crt',
    scope: 'none',
    annotations: READS,
    summary: 'The CA of the control plane, PEM: what gateways trust as `GW_CP_CA_FILE`.',
    output: { status: 200, contentType: 'application/x-pem-file' },
    handle: (_call, { state }) => ({ text: state.caCertificate }),
  }),
];
