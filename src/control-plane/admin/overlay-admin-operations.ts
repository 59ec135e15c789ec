import { z } from 'zod';
import { members } from '../../operations/members.ts';
import { READS, REMOVES, REPLACES } from '../../operations/operation.ts';
import { CHANGE, CHANGE_MEMBERS, isTrue, namesAllLost, SWITCH, weighing } from '../../operations/policy-change-shapes.ts';
import { time } from '../../operations/shapes.ts';
import type { KeptOverlay } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, dataOf, ofOrg, oneOfOrg } from './admin-operation.ts';

const MAX_OVERLAY_BYTES = 4 * 1024 * 1024;

const OVERLAY = z.object({
  id: z.string().meta({ description: '`org`, or `node:` and the id of the node on which it counts' }),
  level: z.enum(['org', 'node']),
  node_id: z.string().optional(),
  kid: z.string().meta({ description: 'The key that has signed it' }),
  put_at: time,
  bundle_yaml: z.string(),
});

const BODY = members({
  bundle_yaml: z.string('must be the text of an overlay').min(1, 'must not be empty: remove the overlay instead'),
  dry_run: CHANGE_MEMBERS.dry_run,
  confirm: CHANGE_MEMBERS.confirm,
});
const REMOVAL = z.object({ dry_run: SWITCH, confirm: SWITCH });
const params = oneOfOrg('`org`, or `node:` and the id of a node');

/** What an org lays over its bundle: as its gateways hand it on, or put here (decision 13.12). */
export const OVERLAY_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'overlay.list',
    method: 'GET',
    path: '/v1/orgs/{org}/overlays',
    scope: 'admin',
    annotations: READS,
    summary: 'What an org lays over its bundle, at all of its gateways or at one.',
    errors: ['not_found'],
    input: { params: ofOrg },
    output: { status: 200, schema: dataOf(OVERLAY) },
    handle: async ({ params: { org } }, { state }) => ({ json: { data: (await state.overlays.list(org)).map(shown) } }),
  }),
  adminOperation({
    id: 'overlay.put',
    method: 'PUT',
    path: '/v1/orgs/{org}/overlays/{id}',
    scope: 'admin',
    annotations: REPLACES,
    summary:
      'Lays an overlay over the bundle of an org: YAML, or JSON with `bundle_yaml`. One that does not load on its plan tier changes nothing.',
    errors: ['not_found', 'invalid_policy', 'body_too_large', 'confirmation_needed'],
    maxBodyBytes: MAX_OVERLAY_BYTES,
    textMember: 'bundle_yaml',
    input: { params, body: { schema: () => BODY, what: 'The overlay' } },
    output: { status: 200, schema: OVERLAY.extend({ change: CHANGE }) },
    handle: async ({ params: { org, id }, body, commit }, { state }) => {
      const weighed = weighing(body);
      const overlay = await state.overlays.put(org, id, body.bundle_yaml, commit, weighed.accept);
      return { json: { ...shown(overlay), ...weighed.shown() } };
    },
  }),
  adminOperation({
    id: 'overlay.remove',
    method: 'DELETE',
    path: '/v1/orgs/{org}/overlays/{id}',
    scope: 'admin',
    annotations: REMOVES,
    summary: 'Takes an overlay of an org away. `change` of the answer says what that does; `dry_run` only says it.',
    errors: ['not_found', 'confirmation_needed'],
    input: { params, query: { schema: () => REMOVAL } },
    output: { status: 200, schema: z.object({ id: z.string(), status: z.enum(['deleted', 'kept']), change: CHANGE }) },
    handle: async ({ params: { org, id }, query, commit }, { state }) => {
      const isDry = isTrue(query.dry_run) ?? false;
      const weighed = weighing({ dry_run: isDry, confirm: isTrue(query.confirm) }, namesAllLost);
      await state.overlays.remove(org, id, commit, weighed.accept);
      return { json: { id, status: isDry ? ('kept' as const) : ('deleted' as const), ...weighed.shown() } };
    },
  }),
];

function shown({ org_id: _org, signature: _signature, ...rest }: KeptOverlay) {
  return rest;
}
