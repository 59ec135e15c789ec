import { z } from 'zod';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { mergeRules } from '../../policy-tools/edit-overlay.ts';
import type { OverlayText } from '../../services/policy/overlay-trial.ts';
import { HANDED_ON } from '../hand-on.ts';
import { members } from '../members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from '../operation.ts';
import { CHANGE, CHANGE_MEMBERS } from '../policy-change-shapes.ts';
import { MAX_PUT_LENGTH, POLICY, reloadPolicy } from '../policy-operations.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';
import { handOnOverlay, PLACE_MEMBERS, placeOf, putOverlay } from './put-overlay.ts';
import { ABOUT_ALL, BUNDLE, type ShownBundle, shownPolicy } from './shown-policy.ts';

const TEXT_RULE = `must be YAML text of at most ${MAX_PUT_LENGTH} characters`;

const BODY = members({
  bundle_yaml: z
    .string(TEXT_RULE)
    .max(MAX_PUT_LENGTH, TEXT_RULE)
    .meta({ description: 'The whole overlay, in the place of all of its rules; empty: takes it away' }),
  ...PLACE_MEMBERS,
  merge: z.boolean('must be true or false').optional().meta({ description: 'true: laid into the overlay, whose other rules stay' }),
  ...CHANGE_MEMBERS,
});

const BUNDLES = z.object({ data: z.array(BUNDLE), ...ABOUT_ALL, change: CHANGE });
const ORDER: readonly ShownBundle['level'][] = ['base', 'org', 'node'];

/** What a bundle stands by in the list: as they are laid over each other. */
function rankOf({ level, source, node_id: node = '' }: ShownBundle): string {
  return `${ORDER.indexOf(level)} ${source === 'generated' ? 0 : 1} ${node}`;
}

/** The bundle that an org is judged by, and what it lays over it (specification, "Policy bundle"; decision 5.6). */
export const OVERLAY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.policies.list',
    method: 'GET',
    path: '/mgmt/v1/policies',
    scope: 'read',
    summary: 'The bundle of the gateway, and the overlays that the org has laid over it.',
    annotations: READS,
    versioned: true,
    tools: [{ name: 'get_policy', title: 'Get the policy' }],
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(BUNDLE).extend(ABOUT_ALL) },
    handle: async ({ principal, query }, { policies }) => {
      await policies.ready(orgOf(principal));
      const all = shownPolicy(policies, orgOf(principal));
      const { data, ...aboutAll } = all;
      return { json: { ...pageInMemory(data, rankOf, cursorPage('policies', query)), ...aboutAll }, tagged: all };
    },
  }),
  operation({
    id: 'mgmt.policies.put',
    method: 'PUT',
    path: '/mgmt/v1/policies',
    scope: 'write',
    summary:
      "Lays an overlay over the bundle for the org's requests, from the next one on; one that does not load changes nothing. `change` of the answer says what it does; `dry_run` only says it.",
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['invalid_policy', 'precondition_failed', 'confirmation_needed', 'conflict', ...HANDED_ON],
    versioned: true,
    tools: [
      {
        name: 'update_policy',
        title: 'Update the policy',
        description:
          'Replaces the whole policy overlay of the org or of a node by raw YAML: rules that are not in it are lost, unless merge is true. For one rule use put_policy_rule. Refused when rules would be lost or a layer become an allow-list, unless confirm is true.',
        defaults: { confirm: false },
      },
    ],
    input: { body: { schema: () => BODY, what: 'The overlay' } },
    output: { status: 200, schema: BUNDLES },
    handle: async (call, services) => {
      const { body } = call;
      return putOverlay(call, services, placeOf(body, orgOf(call.principal), services.health.nodeId), { ...body, text: textOf(body) });
    },
    handOn: async (call, services, handOn) => {
      const { body } = call;
      const place = placeOf(body, orgOf(call.principal), services.health.nodeId);
      return handOnOverlay(call, services, handOn, place, { ...body, text: textOf(body) });
    },
  }),
  operation({
    id: 'mgmt.policies.reload',
    method: 'POST',
    path: '/mgmt/v1/policies/reload',
    scope: 'write',
    summary:
      'Reads the policies folder of the gateway again. Where it serves several orgs, a bundle that its operator has put stays (409).',
    annotations: REPLACES,
    errors: ['invalid_policy', 'invalid_request', 'conflict'],
    tools: [{ name: 'reload_policy', title: 'Reload the policy' }],
    output: { status: 200, schema: POLICY },
    handle: async ({ commit }, services) => {
      // What was put counts for every org; none of them takes it away from the others.
      if (services.orgs.orgId === undefined && services.policies.current().source === 'api')
        throw new GatewayError('conflict', 'The operator of this gateway has put its bundle by the admin API, which alone reloads it.');
      return { json: await reloadPolicy(services, commit) };
    },
  }),
];

function textOf({ bundle_yaml: text, merge = false }: z.output<typeof BODY>): OverlayText {
  if (!merge) return text;
  // The first text of an overlay is kept as it was written.
  return (before) => (before.trim() === '' ? text : mergeRules(before, text));
}
