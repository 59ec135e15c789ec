import { z } from 'zod';
import { parseTime } from '../../base/lib/clock.ts';
import { members } from '../../operations/members.ts';
import { ADDS, READS, REMOVES } from '../../operations/operation.ts';
import { time } from '../../operations/shapes.ts';
import type { ShownKey } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, dataOf, org } from './admin-operation.ts';

/** Time enough for every node to have heard of the next key. */
const USUAL_WAIT_MS = 7 * 86_400_000;
const USES = ['ledger', 'bundle'] as const;
const ROTATED_USES = [...USES, 'ca'] as const;

const KEY = z.object({
  kid: z.string(),
  alg: z.literal('ed25519'),
  use: z.enum(USES),
  public_key: z.string().meta({ description: 'The 32 bytes in base64' }),
  state: z.enum(['current', 'next', 'former']),
  not_before: time.optional().meta({ description: 'When it begins to sign; absent: with the first root or bundle' }),
  not_after: time.optional().meta({ description: 'When it was retired: what is closed later is not its' }),
  endorsed_by: z.object({ kid: z.string(), sig: z.string() }).optional().meta({
    description: 'The key before it says that this one follows: Ed25519 over the RFC 8785 form of what `gw.key_endorsement.v1` holds',
  }),
});

const KEYS_QUERY = z.strictObject({
  org: org.optional().meta({ description: 'An org: ledger keys are given as verifier keys of its checkpoints, too' }),
});

/** A key that is replaced: one that signs, or a CA. */
const ROTATED = KEY.extend({
  alg: z.enum(['ed25519', 'ecdsa-p256']),
  use: z.enum(ROTATED_USES),
  public_key: z.string().meta({ description: 'The 32 bytes in base64; of a CA its certificate, DER in base64' }),
});

const count = z.int().min(0);
const ROTATION = z.object({
  use: z.enum(ROTATED_USES),
  keys: z.array(ROTATED),
  switch_at: time.nullable().meta({ description: 'When the next key signs; null: there is none' }),
  unaware_nodes: count.meta({ description: 'Gateways that have not fetched the list of keys as it is now' }),
  signed_by_former: count.meta({ description: 'Bundles and overlays that are still signed with a former key' }),
  nodes_on_former: count.meta({
    description: 'Gateways whose bundle in force is signed with a former key, or whose newest certificate is of the former CA',
  }),
  nodes: z.array(z.object({ org_id: z.string(), node_id: z.string() })).meta({ description: 'Some of these gateways, at most 100' }),
});

const OF_USE = z.object({
  use: z
    .enum(ROTATED_USES, 'must be ledger, bundle or ca')
    .meta({ description: 'What the key signs: roots of the `ledger`, the `bundle` of an org and its overlays, or, as `ca`, certificates' }),
});
const ROTATE = members({
  switch_at: z
    .string()
    .refine((value) => parseTime(value) !== undefined, 'must be a time, as RFC 3339 writes it')
    .optional()
    .meta({ format: 'date-time', description: 'When the next key signs; what has passed means at once; left out: in 7 days' }),
});
const FINISH = members({
  confirm: z.boolean('must be true or false').optional().meta({ description: 'Also while gateways still need a former key' }),
});

/** Keys of roots and bundles: who may see them, and how one follows another (decision 13.18). */
export const SIGNING_KEY_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'public_key.list',
    method: 'GET',
    path: '/v1/keys',
    scope: 'none',
    annotations: READS,
    summary: 'Public keys by which roots and bundles are verified: those that sign, next ones and former ones, each with its time.',
    errors: ['not_found'],
    input: { query: { schema: () => KEYS_QUERY } },
    output: {
      status: 200,
      schema: dataOf(
        KEY.extend({
          vkey: z
            .string()
            .optional()
            .meta({ description: 'Of a ledger key, with `org`: the verifier key of its checkpoints (C2SP signed-note)' }),
        }),
      ),
    },
    handle: async ({ query: { org: orgId } }, { state }) => {
      const withVkey = async (key: ShownKey) =>
        key.use === 'ledger' && orgId !== undefined ? { ...key, vkey: await state.ledger.verifierKey(orgId, key) } : key;
      return { json: { data: await Promise.all(state.keys().map(withVkey)) } };
    },
  }),
  adminOperation({
    id: 'keys.status',
    method: 'GET',
    path: '/v1/keys/{use}',
    scope: 'admin',
    annotations: READS,
    summary: 'The keys of roots or of bundles, or the CA, when the next one signs, and which gateways have not heard of it.',
    input: { params: OF_USE },
    output: { status: 200, schema: ROTATION },
    handle: async ({ params: { use } }, { state }) => ({ json: shown(await state.rotations.status(use)) }),
  }),
  adminOperation({
    id: 'keys.rotate',
    method: 'POST',
    path: '/v1/keys/{use}/rotate',
    scope: 'admin',
    annotations: ADDS,
    summary:
      'Makes the next key of roots or of bundles, or the next CA, which is listed at once and signs from `switch_at` on; 409 while there is one.',
    errors: ['conflict'],
    input: { params: OF_USE, body: { schema: () => ROTATE, what: 'The rotation' } },
    output: { status: 200, schema: ROTATION },
    handle: async ({ params: { use }, body: { switch_at: at }, commit }, { state, clock }) => {
      const switchAt = at === undefined ? clock.now() + USUAL_WAIT_MS : (parseTime(at) ?? 0);
      return { json: shown(await state.rotations.rotate(use, switchAt, commit)) };
    },
  }),
  adminOperation({
    id: 'keys.cancel',
    method: 'POST',
    path: '/v1/keys/{use}/cancel',
    scope: 'admin',
    annotations: REMOVES,
    summary: 'Gives the next key up; 409 when there is none, also because it signs already.',
    errors: ['conflict'],
    input: { params: OF_USE },
    output: { status: 200, schema: ROTATION },
    handle: async ({ params: { use }, commit }, { state }) => ({ json: shown(await state.rotations.cancel(use, commit)) }),
  }),
  adminOperation({
    id: 'keys.finish',
    method: 'POST',
    path: '/v1/keys/{use}/finish',
    scope: 'admin',
    annotations: REMOVES,
    summary: 'Lists former keys of bundles, or trusts the former CA, no longer; 409 while it is needed. Those of the ledger stay listed.',
    errors: ['conflict'],
    input: { params: OF_USE, body: { schema: () => FINISH, what: 'The end of the rotation' } },
    output: { status: 200, schema: ROTATION },
    handle: async ({ params: { use }, body: { confirm = false }, commit }, { state }) => ({
      json: shown(await state.rotations.finish(use, confirm, commit)),
    }),
  }),
];

function shown<R extends { readonly keys: readonly K[]; readonly nodes: readonly N[] }, K, N>(rotation: R): R & { keys: K[]; nodes: N[] } {
  return { ...rotation, keys: [...rotation.keys], nodes: [...rotation.nodes] };
}
