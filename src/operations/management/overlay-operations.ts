import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type ActivePolicy, POLICY_SOURCES } from '../../services/active-policy.ts';
import type { OrgOverlay, OverlayPlace } from '../../services/org-overlays.ts';
import type { PolicyService } from '../../services/policies.ts';
import { emptiedWarnings, notLoadedPieces } from '../../services/policy-warnings.ts';
import { HANDED_ON } from '../hand-on.ts';
import { choice, id, members, optional } from '../members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from '../operation.ts';
import { MAX_PUT_LENGTH, namesOf, POLICY, POLICY_WARNINGS, reloadPolicy } from '../policy-operations.ts';
import { PROBLEM, time } from '../shapes.ts';
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
  version: z.string().optional().meta({ description: 'Of the base; of one from a control plane: as it was signed there' }),
  sequence: z.int().optional().meta({ description: 'Of a base from a control plane' }),
  kid: z.string().optional().meta({ description: 'Of a base from a control plane: the key that has signed it' }),
  source: z
    .enum([...POLICY_SOURCES, 'generated'])
    .meta({ description: '`generated`: the rules `auto.allow.{provider}` of an org that has credentials from its control plane' }),
  loaded_at: time,
  bundle_yaml: z.string().optional().meta({ description: 'Of an overlay' }),
});
const ABOUT_ALL = {
  warnings: POLICY_WARNINGS.optional().meta({ description: 'Gating layers that have lost their last rule and count as absent' }),
  not_loaded: z
    .array(
      z.object({
        piece: z.string().meta({ description: '`org overlay`, `node overlay`, `preset ID`, or the file of the bundle' }),
        problems: z.array(PROBLEM),
        take_away: z.string().meta({ description: 'What takes it away; the rest need not load for that' }),
      }),
    )
    .optional()
    .meta({ description: 'What does not load here, and why: while there is some, all requests of the org are denied' }),
};
type Bundle = z.output<typeof BUNDLE>;
const BUNDLES = z.object({ data: z.array(BUNDLE), ...ABOUT_ALL });
const ORDER: readonly Bundle['level'][] = ['base', ...LEVELS];

/** @param judged what the org is judged by */
function shown(
  policies: PolicyService,
  orgId: string,
  overlays = policies.overlays(orgId),
  judged: ActivePolicy = policies.current(orgId),
) {
  const active = policies.current();
  const { source, loaded_at } = active;
  const auto = policies.autoRules(orgId);
  const base = { level: 'base' as const, ...namesOf(active), source, loaded_at: timestamp(loaded_at) };
  const warnings = emptiedWarnings(judged.policy);
  const laid = overlays.map(({ level, node_id, bundle_yaml, put_at }) => ({
    level,
    ...optional('node_id', node_id),
    source: 'api' as const,
    loaded_at: timestamp(put_at),
    bundle_yaml,
  }));
  const generated =
    auto === undefined ? [] : [{ level: 'org' as const, source: 'generated' as const, loaded_at: base.loaded_at, bundle_yaml: auto }];
  return {
    data: [base, ...generated, ...laid],
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(judged.notLoaded === undefined ? {} : { not_loaded: notLoadedPieces(judged.notLoaded) }),
  };
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
    output: { status: 200, schema: dataPage(BUNDLE).extend(ABOUT_ALL) },
    handle: async ({ principal, query }, { policies }) => {
      await policies.ready(orgOf(principal));
      const all = shown(policies, orgOf(principal));
      const { data, ...aboutAll } = all;
      return { json: { ...pageInMemory(data, rankOf, cursorPage('policies', query)), ...aboutAll }, tagged: all };
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
    errors: ['invalid_policy', 'precondition_failed', ...HANDED_ON],
    versioned: true,
    tools: [
      { name: 'update_policy', title: 'Update the policy', description: 'Puts the policy overlay of the org or of a node, as raw YAML.' },
    ],
    input: { body: { schema: () => BODY, what: 'The overlay' } },
    output: { status: 200, schema: BUNDLES },
    handle: async ({ principal, body, commit, expectShown }, { policies, health }) => {
      const { bundle_yaml: text } = body;
      const place = placeOf(body, orgOf(principal), health.nodeId);
      await policies.ready(place.org_id);
      const expect = (before: readonly OrgOverlay[]): void => expectShown(shown(policies, place.org_id, before));
      const judged = await policies.putOverlay(place, text, expect, commit);
      return { json: shown(policies, place.org_id, undefined, judged) };
    },
    handOn: async ({ principal, body, expectShown }, { policies, health }, handOn) => {
      // As where it is put here.
      const text = body.bundle_yaml.replace(/^\ufeff/, '');
      const place = placeOf(body, orgOf(principal), health.nodeId);
      const { org_id: orgId, level, node_id: nodeId } = place;
      await policies.ready(orgId);
      expectShown(shown(policies, orgId));
      await policies.checkOverlay(place, text);
      const id = level === 'org' ? level : `node:${nodeId ?? ''}`;
      const show = (): unknown => policies.overlays(orgId).find((one) => one.level === level && one.node_id === nodeId);
      await handOn(
        { kind: 'overlays.put', entries: [{ id, body: { bundle_yaml: text } }] },
        { entity: 'policy_overlay', object: id, show },
      );
      return { json: shown(policies, orgId) };
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

function placeOf({ level = 'org', node_id: named }: z.output<typeof BODY>, orgId: string, here: string): OverlayPlace {
  if (level === 'org' && named !== undefined) throw onlyOfNodes();
  return { org_id: orgId, level, ...(level === 'node' ? { node_id: named ?? here } : {}) };
}

function onlyOfNodes(): GatewayError {
  const details = [{ path: 'node_id', message: 'belongs to the level node' }];
  return new GatewayError('invalid_request', 'The overlay has 1 bad member(s).', { details });
}
