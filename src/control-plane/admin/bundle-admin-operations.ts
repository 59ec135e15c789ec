import { z } from 'zod';
import { members } from '../../operations/members.ts';
import { READS, REPLACES } from '../../operations/operation.ts';
import { CHANGE, CHANGE_MEMBERS, weighing } from '../../operations/policy-change-shapes.ts';
import { POLICY_WARNINGS } from '../../operations/policy-operations.ts';
import { time } from '../../operations/shapes.ts';
import type { OrgBundle } from '../state/control-plane-state.ts';
import { type AdminOperation, adminOperation, noSuch, ofOrg } from './admin-operation.ts';

const MAX_BUNDLE_BYTES = 4 * 1024 * 1024;

const SIGNED = z.object({
  bundle_id: z.string(),
  version: z.string(),
  sequence: z.int().meta({ description: 'From 1 up; a gateway takes none that is older than what it has' }),
  kid: z.string().meta({ description: 'The key that has signed it' }),
  updated_at: time,
});

const PUT = SIGNED.extend({
  change: CHANGE,
  warnings: POLICY_WARNINGS.optional().meta({ description: 'Gating layers that have lost their last rule and count as absent' }),
});

const BODY = members({
  bundle_yaml: z.string('must be the text of a policy bundle'),
  dry_run: CHANGE_MEMBERS.dry_run,
  confirm: CHANGE_MEMBERS.confirm,
});

/** The policy of an org (decision 13.6). */
export const BUNDLE_ADMIN_OPERATIONS: readonly AdminOperation[] = [
  adminOperation({
    id: 'bundle.read',
    method: 'GET',
    path: '/v1/orgs/{org}/bundle',
    scope: 'admin',
    annotations: READS,
    summary: 'The policy bundle of an org as it was given.',
    errors: ['not_found'],
    input: { params: ofOrg },
    output: { status: 200, schema: SIGNED.extend({ bundle_yaml: z.string() }) },
    handle: async ({ params }, { state }) => {
      const bundle = await state.bundles.get(params.org);
      if (bundle === undefined) throw noSuch(`bundle of the org ${params.org}`);
      return { json: { ...signedOf(bundle), bundle_yaml: bundle.bundle_yaml } };
    },
  }),
  adminOperation({
    id: 'bundle.put',
    method: 'PUT',
    path: '/v1/orgs/{org}/bundle',
    scope: 'admin',
    annotations: REPLACES,
    summary:
      'Replaces the policy bundle of an org: YAML, or JSON with `bundle_yaml`. One that does not load changes nothing. `change` of the answer says what it does; `dry_run` only says it.',
    errors: ['not_found', 'invalid_policy', 'body_too_large', 'confirmation_needed'],
    maxBodyBytes: MAX_BUNDLE_BYTES,
    textMember: 'bundle_yaml',
    input: { params: ofOrg, body: { schema: () => BODY, what: 'The bundle' } },
    output: { status: 200, schema: PUT },
    handle: async ({ params, body, commit }, { state }) => {
      const { accept, shown } = weighing(body);
      const { warnings, ...bundle } = await state.bundles.put(params.org, body.bundle_yaml, commit, accept);
      return { json: { ...signedOf(bundle), ...(warnings.length === 0 ? {} : { warnings }), ...shown() } };
    },
  }),
];

function signedOf({ bundle_id, version, sequence, kid, updated_at }: OrgBundle) {
  return { bundle_id, version, sequence, kid, updated_at };
}
