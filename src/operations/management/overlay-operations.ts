import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { POLICY_SOURCES } from '../../services/active-policy.ts';
import type { OrgOverlay } from '../../services/org-overlays.ts';
import type { PolicyService } from '../../services/policies.ts';
import { choice, id, members, optional } from '../members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from '../operation.ts';
import { MAX_PUT_LENGTH, POLICY, reloadPolicy } from '../policy-operations.ts';
import { time } from '../shapes.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';

const TEXT_RULE = `must be YAML text of at most ${MAX_PUT_LENGTH} characters`;
const LEVELS = ['org', 'node'] as const;

const BODY = members({
  bundle_yaml: z.string(TEXT_RULE).max(MAX_PUT_LENGTH, TEXT_RULE).meta({ description: 'The overlay; empty: takes away what was there' }),
  level: choice(LEVELS).optional().meta({ description: 'org when left out' }),
  node_id: id.optional().meta({ description: 'With level node; this node when left out' }),
});

const BUNDLE = z.object({
  level: z.enum(['base', ...LEVELS]),
  node_id: z.string().optional(),
  bundle_id: z.string().optional().meta({ description: 'Of the base' }),
  version: z.string().optional().meta({ description: 'Of the base' }),
  source: z
    .enum([...POLICY_SOURCES, 'generated'])
    .meta({ description: '`generated`: the rules `auto.allow.{provider}` of an org that has credentials from its control plane' }),
  loaded_at: time,
  bundle_yaml: z.string().optional().meta({ description: 'Of an overlay' }),
});
type Bundle = z.output<typeof BUNDLE>;
const BUNDLES = z.object({ data: z.array(BUNDLE) });
const ORDER: readonly Bundle['level'][] = ['base', ...LEVELS];

function shown(policies: PolicyService, orgId: string, overlays = policies.overlays(orgId)): { readonly data: readonly Bundle[] } {
  const { bundle_id, version, source, loaded_at } = policies.current();
  const auto = policies.autoRules(orgId);
  const base = { level: 'base' as const, bundle_id, version, source, loaded_at: timestamp(loaded_at) };
  const laid = overlays.map(({ level, node_id, bundle_yaml, put_at }) => ({
    level,
    ...optional('node_id', node_id),
    source: 'api' as const,
    loaded_at: timestamp(put_at),
    bundle_yaml,
  }));
  const generated =
    auto === undefined ? [] : [{ level: 'org' as const, source: 'generated' as const, loaded_at: base.loaded_at, bundle_yaml: auto }];
  return { data: [base, ...generated, ...laid] };
}

/** What a bundle stands by in the list: as they are laid over each other. */
function rankOf({ level, source, node_id: node = '' }: Bundle): string {
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
    output: { status: 200, schema: dataPage(BUNDLE) },
    handle: ({ principal, query }, { policies }) => {
      const all = shown(policies, orgOf(principal));
      return { json: pageInMemory(all.data, rankOf, cursorPage('policies', query)), tagged: all };
    },
  }),
  operation({
    id: 'mgmt.policies.put',
    method: 'PUT',
    path: '/mgmt/v1/policies',
    scope: 'write',
    summary: "Lays an overlay over the bundle for the org's requests, from the next one on; one that does not load changes nothing.",
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['invalid_policy', 'precondition_failed'],
    versioned: true,
    tools: [
      { name: 'update_policy', title: 'Update the policy', description: 'Puts the policy overlay of the org or of a node, as raw YAML.' },
    ],
    input: { body: { schema: () => BODY, what: 'The overlay' } },
    output: { status: 200, schema: BUNDLES },
    handle: async ({ principal, body, commit, expectShown }, { policies, health }) => {
      const { level = 'org', node_id: named, bundle_yaml: text } = body;
      if (level === 'org' && named !== undefined) throw onlyOfNodes();
      const place = { org_id: orgOf(principal), level, ...(level === 'node' ? { node_id: named ?? health.nodeId } : {}) };
      const expect = (before: readonly OrgOverlay[]): void => expectShown(shown(policies, place.org_id, before));
      return { json: shown(policies, place.org_id, await policies.putOverlay(place, text, expect, commit)) };
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

function onlyOfNodes(): GatewayError {
  const details = [{ path: 'node_id', message: 'belongs to the level node' }];
  return new GatewayError('invalid_request', 'The overlay has 1 bad member(s).', { details });
}
