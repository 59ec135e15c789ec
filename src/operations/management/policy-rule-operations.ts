import { z } from 'zod';
import { isJsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { DECISIONS } from '../../base/model/reason-codes.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import { STANDARD_LAYERS } from '../../decide/policy/layers.ts';
import { putRule, removeRules } from '../../policy-tools/edit-overlay.ts';
import { type HeldRule, heldRules, writtenRules } from '../../services/orgs/held-rules.ts';
import type { OverlayPlace } from '../../services/policy/org-overlays.ts';
import { HANDED_ON } from '../hand-on.ts';
import { choice, members, optional, text } from '../members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES } from '../operation.ts';
import { CHANGE, CHANGE_MEMBERS, type ChangeAsked, isTrue, SWITCH } from '../policy-change-shapes.ts';
import type { OperationServices } from '../services.ts';
import { etag } from '../shapes.ts';
import { CURSOR_PARAMETERS, cursorPage, dataPage, pageInMemory } from './cursor-pages.ts';
import { orgOf } from './org-of.ts';
import { handOnOverlay, type OverlayAnswer, type OverlayChange, PLACE_MEMBERS, placeOf, putOverlay } from './put-overlay.ts';
import { shownPolicy } from './shown-policy.ts';

const RULE_RULE = `must be the rule as YAML or JSON of at most ${POLICY_BOUNDS.edited.one} characters`;
const RULE_TEXT =
  'As YAML or JSON: {when: {all: [{field: action.params.model, equals: o3}, {not: {field: workload.id, equals: red}}]}, effect: {decision: deny, reason: text}}; also attribution.project_id, connector.id, caller_id; disabled: true switches it off';
const LAYER = text.optional().meta({ description: `${STANDARD_LAYERS.join(', ')} or custom.NAME` });
const RULE_ID = z.object({ rule_id: z.string().meta({ description: 'Rule id' }) });

const RULE = z.object({
  rule_id: z.string(),
  layer: z.string(),
  level: z.enum(['base', 'org', 'node']),
  node_id: z.string().optional(),
  from: z.enum(['bundle', 'overlay', 'generated']).meta({ description: 'Rules of overlays can be put and deleted' }),
  in_force: z.boolean().meta({ description: 'false: disabled, replaced by another level, or for another node' }),
  decision: z.enum(DECISIONS).optional(),
  priority: z.int().optional(),
  rule: z.string().optional().meta({ description: 'Of an overlay: as YAML' }),
});

const PUT = members({
  rule: z
    .preprocess(
      (given) => (isJsonObject(given) ? JSON.stringify(given) : given),
      z.string(RULE_RULE).max(POLICY_BOUNDS.edited.one, RULE_RULE),
    )
    .meta({ type: 'string', description: RULE_TEXT }),
  layer: LAYER,
  before: text.optional().meta({ description: 'Id of the rule before which it stands in the text' }),
  after: text.optional().meta({ description: 'Id of the rule behind which it stands' }),
  ...PLACE_MEMBERS,
  ...CHANGE_MEMBERS,
});

const PUT_ANSWER = RULE.omit({ from: true, in_force: true, decision: true, priority: true }).extend({
  previous_rule: z.string().optional().meta({ description: 'Of a rule that was there: as it was, as YAML; it is put back by putting it' }),
  ...{ etag, change: CHANGE },
});

/** One rule of what an org lays over the bundle, all others staying as they are (decision 5.10). */
export const POLICY_RULE_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.policies.rules.list',
    method: 'GET',
    path: '/mgmt/v1/policies/rules',
    scope: 'read',
    summary: 'Every rule that the org is judged by, and those of its overlays that are not in force, in the order of layers.',
    annotations: READS,
    versioned: true,
    tools: [{ name: 'list_policy_rules', title: 'List policy rules', like: 'put_policy_rule' }],
    input: {
      query: {
        schema: () =>
          z.strictObject({
            layer: LAYER,
            level: choice(['base', 'org', 'node']).optional(),
            rule_id: text.optional(),
            ...CURSOR_PARAMETERS,
          }),
      },
    },
    output: { status: 200, schema: dataPage(RULE).extend({ etag }) },
    handle: async ({ principal, query }, services) => {
      const { rules, all } = await rulesOf(orgOf(principal), services);
      const { layer, level, rule_id: id } = query;
      const found = rules.filter(
        (one) => (layer ?? one.layer) === one.layer && (level ?? one.level) === one.level && (id ?? one.rule_id) === one.rule_id,
      );
      const ranked = found.map((one, i) => ({ ...one, rank: String(i).padStart(6, '0') }));
      const page = pageInMemory(ranked, ({ rank }) => rank, cursorPage('policy rules', query));
      return { json: { ...page, data: page.data.map(({ rank: _rank, ...one }) => one), etag: all.etag }, tagged: all };
    },
  }),
  operation({
    id: 'mgmt.policies.rules.get',
    method: 'GET',
    path: '/mgmt/v1/policies/rules/{rule_id}',
    scope: 'read',
    summary: 'One rule; of several of that id the one in force.',
    annotations: READS,
    versioned: true,
    errors: ['not_found', 'conflict'],
    tools: [{ name: 'get_policy_rule', title: 'Get policy rule', like: 'put_policy_rule' }],
    input: { params: RULE_ID, query: { schema: () => z.strictObject({ layer: LAYER, ...PLACE_MEMBERS }) } },
    output: { status: 200, schema: RULE.extend({ etag }) },
    handle: async ({ principal, params, query }, services) => {
      const { rules, all } = await rulesOf(orgOf(principal), services);
      const { layer, level, node_id: node } = query;
      const found = rules.filter(
        (one) =>
          one.rule_id === params.rule_id &&
          (layer ?? one.layer) === one.layer &&
          (level ?? one.level) === one.level &&
          (node ?? one.node_id) === one.node_id,
      );
      const rule = found.find(({ in_force: inForce }) => inForce) ?? found[0];
      if (rule === undefined) throw noSuchRule(params.rule_id);
      if (new Set(found.map((one) => one.layer)).size > 1) throw severalLayers(params.rule_id, found);
      return { json: { ...rule, etag: all.etag }, tagged: all };
    },
  }),
  operation({
    id: 'mgmt.policies.rules.put',
    method: 'PUT',
    path: '/mgmt/v1/policies/rules/{rule_id}',
    scope: 'write',
    summary: 'Adds one rule to an overlay of the org, or changes it; all other rules, their order and their comments stay.',
    annotations: REPLACES,
    ownedRemotely: true,
    versioned: true,
    errors: ['invalid_policy', 'precondition_failed', 'confirmation_needed', 'conflict', ...HANDED_ON],
    tools: [
      {
        name: 'put_policy_rule',
        title: 'Put policy rule',
        description:
          'Adds one rule to the policy overlay of the org, or changes it; all other rules stay. Refused when its layer would become an allow-list, unless confirm is true.',
        defaults: { confirm: false },
      },
    ],
    input: { params: RULE_ID, body: { schema: () => PUT, what: 'The rule' } },
    output: { status: 200, schema: PUT_ANSWER },
    handle: async (call, services) => {
      const { principal, params, body } = call;
      const asked = await ruleChange(orgOf(principal), params.rule_id, body, services);
      return answered(await putOverlay(call, services, asked.place, asked.change), asked);
    },
    handOn: async (call, services, handOn) => {
      const { principal, params, body } = call;
      const asked = await ruleChange(orgOf(principal), params.rule_id, body, services);
      return answered(await handOnOverlay(call, services, handOn, asked.place, asked.change), asked);
    },
  }),
  operation({
    id: 'mgmt.policies.rules.remove',
    method: 'DELETE',
    path: '/mgmt/v1/policies/rules/{rule_id}',
    scope: 'write',
    summary: 'Takes one rule out of an overlay of the org; all others stay.',
    annotations: REMOVES,
    ownedRemotely: true,
    versioned: true,
    errors: ['not_found', 'invalid_policy', 'precondition_failed', 'confirmation_needed', 'conflict', ...HANDED_ON],
    tools: [{ name: 'delete_policy_rule', title: 'Delete policy rule', like: 'put_policy_rule', defaults: { confirm: false } }],
    input: {
      params: RULE_ID,
      query: {
        schema: () =>
          z.strictObject({ layer: LAYER, ...PLACE_MEMBERS, dry_run: SWITCH, confirm: SWITCH, if_match: CHANGE_MEMBERS.if_match }),
      },
    },
    output: { status: 200, schema: PUT_ANSWER },
    handle: async (call, services) => {
      const asked = await removal(orgOf(call.principal), call.params.rule_id, call.query, services);
      return answered(await putOverlay(call, services, asked.place, asked.change), asked);
    },
    handOn: async (call, services, handOn) => {
      const asked = await removal(orgOf(call.principal), call.params.rule_id, call.query, services);
      return answered(await handOnOverlay(call, services, handOn, asked.place, asked.change), asked);
    },
  }),
];

/** A change of one rule. */
interface RuleChange {
  readonly layer: string;
  readonly ruleId: string;
  /** As it was, as YAML. */
  readonly was: string | undefined;
  readonly place: OverlayPlace;
  readonly change: OverlayChange;
}

async function rulesOf(orgId: string, { policies, health }: OperationServices) {
  await policies.ready(orgId);
  const rules = heldRules(policies.current(orgId), policies.overlays(orgId), health.nodeId);
  return { rules, all: shownPolicy(policies, orgId) };
}

async function ruleChange(orgId: string, ruleId: string, body: z.output<typeof PUT>, services: OperationServices): Promise<RuleChange> {
  const place = placeOf(body, orgId, services.health.nodeId);
  const { rules } = await rulesOf(orgId, services);
  const known = rules.filter((one) => one.rule_id === ruleId);
  if (body.before !== undefined && body.after !== undefined)
    throw badMember('after', 'belongs to a rule without before: one of the two says where it stands');
  if (body.layer === undefined && known.length === 0)
    throw badMember('layer', `is needed of a new rule: one of ${STANDARD_LAYERS.join(', ')}`);
  const layer = body.layer ?? layerOf(ruleId, known);
  const { rule, before, after } = body;
  const put = (text: string): string => putRule(text, { layer, rule_id: ruleId }, rule, { before, after });
  const was = known.find((one) => one.layer === layer && isOwn(one, place))?.rule;
  return { layer, ruleId, was, place, change: { ...body, text: put, object: `${layer}/${ruleId}` } };
}

interface RemovalAsked extends Pick<ChangeAsked, 'if_match'> {
  readonly layer?: string | undefined;
  readonly level?: 'org' | 'node' | undefined;
  readonly node_id?: string | undefined;
  readonly dry_run?: string | undefined;
  readonly confirm?: string | undefined;
}

async function removal(orgId: string, ruleId: string, query: RemovalAsked, services: OperationServices): Promise<RuleChange> {
  const place = placeOf(query, orgId, services.health.nodeId);
  const { rules } = await rulesOf(orgId, services);
  const known = rules.filter((one) => one.rule_id === ruleId && (query.layer ?? one.layer) === one.layer);
  const own = known.filter((one) => isOwn(one, place));
  if (own.length === 0) throw noSuchRule(ruleId, known);
  const layer = query.layer ?? layerOf(ruleId, own);
  const named = new Set([`${layer}/${ruleId}`]);
  const asked: ChangeAsked = { dry_run: isTrue(query.dry_run), confirm: isTrue(query.confirm), if_match: query.if_match };
  const without = (text: string): string => removeRules(text, [{ layer, rule_id: ruleId }]);
  const was = own.find((one) => one.layer === layer)?.rule;
  return { layer, ruleId, was, place, change: { ...asked, text: without, named, object: `${layer}/${ruleId}` } };
}

/** Whether a rule stands in the overlay of that place. */
function isOwn({ from, level, node_id: node }: HeldRule, place: OverlayPlace): boolean {
  return from === 'overlay' && level === place.level && node === place.node_id;
}

function layerOf(ruleId: string, found: readonly HeldRule[]): string {
  const [layer = '', another] = new Set(found.map((one) => one.layer));
  if (another !== undefined) throw severalLayers(ruleId, found);
  return layer;
}

function severalLayers(ruleId: string, found: readonly HeldRule[]): GatewayError {
  const layers = [...new Set(found.map(({ layer }) => layer))].join(', ');
  return badMember('layer', `is needed: there are rules ${ruleId} in ${layers}`);
}

function badMember(path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `The rule has 1 bad member(s).`, { details: [{ path, message }] });
}

/** @param known rules of that id elsewhere */
function noSuchRule(ruleId: string, known: readonly HeldRule[] = []): GatewayError {
  const [one] = known;
  if (one === undefined) return new GatewayError('not_found', `There is no rule ${ruleId}.`);
  const where =
    one.from === 'overlay'
      ? `the overlay of the level ${one.level}${one.node_id === undefined ? '' : `, node ${one.node_id}`}`
      : one.from === 'bundle'
        ? 'the bundle'
        : 'what the gateway makes of add-ons and credentials';
  const how =
    one.from === 'bundle' ? `: put a rule of that id with disabled: true in the layer ${one.layer} to take it away for this org` : '';
  return new GatewayError('not_found', `This overlay has no rule ${ruleId}; it stands in ${where}${how}.`);
}

/** The rule that was put, and not the whole policy. */
function answered({ json: { etag: tag, change }, tagged, after }: OverlayAnswer, { layer, ruleId, was, place }: RuleChange) {
  const { level, node_id: node } = place;
  const rule = writtenRules(after).find((one) => one.layer === layer && one.rule_id === ruleId)?.rule;
  const texts = { ...optional('rule', rule), ...optional('previous_rule', was) };
  return { json: { rule_id: ruleId, layer, level, ...optional('node_id', node), ...texts, etag: tag, change }, tagged };
}
