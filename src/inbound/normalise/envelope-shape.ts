import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { holdsOwnToken, isOwnToken, NO_PROVIDER_KEY } from '../../base/lib/own-tokens.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import { ACTION_REQUEST_SCHEMA, type ActionRequest } from '../../base/model/action-request.ts';
import { mergeLabels } from '../../decide/attribution/settle-attribution.ts';
import { type EnvelopeProblems, ID_RULE, isId, MAX_LABELS, MAX_TEXT, member, OWN_TOKEN_RULE, TEXT_RULE } from './envelope-rules.ts';

export type Member = unknown;
/** Own properties of a JSON object whose names were checked, without a prototype. */
export type Members = Readonly<Record<string, Member>>;

/** An object without a prototype, in which `__proto__` is a name like any other. */
export function emptyMap<T>(): Record<string, T> {
  return { __proto__: null } as unknown as Record<string, T>;
}

/** Longest provider key or delegation token. Bearer tokens of clouds have a few thousand characters. */
const MAX_SECRET = 65_536;

function ownTokenIn(text: string): string | undefined {
  return holdsOwnToken(text) ? OWN_TOKEN_RULE : undefined;
}

function secretMistake(value: unknown): string | undefined {
  return typeof value === 'string' && value.length >= 1 && value.length <= MAX_SECRET && /^[\x20-\x7e]+$/.test(value)
    ? undefined
    : `must be 1 to ${MAX_SECRET} printable ASCII characters`;
}

/** What is wrong with a value; undefined when nothing is. */
type Check = (value: unknown) => string | undefined;

const CHECKS = {
  schema: (value) => (value === ACTION_REQUEST_SCHEMA ? undefined : `must be "${ACTION_REQUEST_SCHEMA}"`),
  id: (value) => (typeof value === 'string' && isId(value) ? ownTokenIn(value) : ID_RULE),
  text: (value) => (typeof value !== 'string' ? 'must be a string' : value.length <= MAX_TEXT ? ownTokenIn(value) : TEXT_RULE),
  map: (value) => (isJsonObject(value) ? undefined : 'must be an object'),
  secret: secretMistake,
  key: (value) => secretMistake(value) ?? (isOwnToken(String(value)) ? NO_PROVIDER_KEY : undefined),
  count: (value) => (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? undefined : 'must be a non-negative integer'),
} satisfies Readonly<Record<string, Check>>;

interface MemberRule {
  readonly name: string;
  readonly required: boolean;
  readonly check: Check;
}

/** Members by name and what each must be; `!` marks a required one. */
function rulesOf(members: Readonly<Record<string, keyof typeof CHECKS | `${keyof typeof CHECKS}!`>>): ReadonlyMap<string, MemberRule> {
  const rules = Object.entries(members).map(([name, rule]): [string, MemberRule] => [
    name,
    { name, required: rule.endsWith('!'), check: CHECKS[rule.replace('!', '') as keyof typeof CHECKS] },
  ]);
  return new Map(rules);
}

/** Specification, "ActionRequest". */
const ENVELOPE = rulesOf({
  schema: 'schema!',
  request_id: 'id',
  org_id: 'id!',
  caller_id: 'text',
  workload_id: 'id!',
  context: 'map',
  action: 'map!',
  attribution: 'map',
  credential_hint: 'key',
  connector_hint: 'id',
  idempotency_key: 'id',
  delegation_id: 'id',
  delegation_token: 'secret',
});
const CONTEXT = rulesOf({ purpose: 'text', labels: 'map', estimates: 'map' });
const ESTIMATES = rulesOf({ tokens_in: 'count', tokens_out_max: 'count' });
const ATTRIBUTION = rulesOf({ customer_id: 'text', account_id: 'text', project_id: 'text', labels: 'map' });
const ACTION: ReadonlySet<string> = new Set(['type', 'method', 'target_host', 'target_path', 'target', 'params', 'headers']);

export interface Envelope {
  readonly requestId: string | undefined;
  readonly rest: Omit<ActionRequest, 'schema' | 'request_id' | 'action'>;
  /** Own members of `action`, the names checked; undefined when it is no object. */
  readonly action: Members | undefined;
}

/**
 * Validates everything of a structured call but the inside of `action`; what is wrong goes to `problems` and is then
 * left out of the result.
 */
export function readEnvelope(body: JsonObject, problems: EnvelopeProblems): Envelope {
  const top = readMembers(body, '', ENVELOPE, problems);
  const { context, attribution } = withBothLabels(
    readContext(top['context'], problems),
    readAttribution(top['attribution'], problems),
    problems,
  );
  const rest = {
    org_id: textOf(top['org_id']) ?? '',
    workload_id: textOf(top['workload_id']) ?? '',
    ...member('caller_id', textOf(top['caller_id'])),
    ...member('context', context),
    attribution,
    ...member('credential_hint', textOf(top['credential_hint'])),
    ...member('connector_hint', textOf(top['connector_hint'])),
    ...member('idempotency_key', textOf(top['idempotency_key'])),
    ...member('delegation_id', textOf(top['delegation_id'])),
    ...member('delegation_token', textOf(top['delegation_token'])),
  };
  return { requestId: textOf(top['request_id']), rest, action: readActionNames(top['action'], problems) };
}

/**
 * A label that a caller gives is one, at whichever of its two places: the other has it too, where that says nothing
 * else (decision 4.8).
 */
function withBothLabels(
  context: ActionRequest['context'],
  attribution: Attribution,
  problems: EnvelopeProblems,
): { readonly context: ActionRequest['context']; readonly attribution: Attribution } {
  const ofCall = context?.labels;
  if (ofCall === undefined) return { context, attribution };
  const charged = mergeLabels(attribution.labels ?? {}, ofCall);
  if (Object.keys(charged).length > MAX_LABELS)
    problems.add('attribution.labels', `must have at most ${MAX_LABELS} members, with those of context.labels`);
  const labels = attribution.labels === undefined ? ofCall : mergeLabels(ofCall, attribution.labels);
  return { context: { ...context, labels }, attribution: { ...attribution, labels: charged } };
}

function textOf(value: Member): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/**
 * Checks every member against its rule and refuses unknown names (decision 8.4). The result holds only members that
 * keep their rule.
 */
function readMembers(map: JsonObject, prefix: string, rules: ReadonlyMap<string, MemberRule>, problems: EnvelopeProblems): Members {
  const result: Record<string, Member> = emptyMap();
  for (const name of Object.keys(map)) {
    if (!rules.has(name)) problems.add(prefix + name, 'is not a known member');
  }
  for (const { name, required, check } of rules.values()) {
    const value = Object.hasOwn(map, name) ? map[name] : undefined;
    if (value === undefined) {
      if (required) problems.add(prefix + name, 'is required');
      continue;
    }
    const complaint = check(value);
    if (complaint === undefined) result[name] = value;
    else problems.add(prefix + name, complaint);
  }
  return result;
}

function readContext(value: Member, problems: EnvelopeProblems): ActionRequest['context'] {
  if (!isJsonObject(value)) return undefined;
  const members = readMembers(value, 'context.', CONTEXT, problems);
  const labels = readLabels(members['labels'], 'context.labels', problems);
  const estimates = isJsonObject(members['estimates'])
    ? readMembers(members['estimates'], 'context.estimates.', ESTIMATES, problems)
    : undefined;
  return {
    ...member('purpose', textOf(members['purpose'])),
    ...member('labels', labels),
    ...member(
      'estimates',
      estimates === undefined
        ? undefined
        : {
            ...member('tokens_in', countOf(estimates['tokens_in'])),
            ...member('tokens_out_max', countOf(estimates['tokens_out_max'])),
          },
    ),
  };
}

function countOf(value: Member): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function readAttribution(value: Member, problems: EnvelopeProblems): Attribution {
  if (!isJsonObject(value)) return {};
  const members = readMembers(value, 'attribution.', ATTRIBUTION, problems);
  return {
    ...member('customer_id', textOf(members['customer_id'])),
    ...member('account_id', textOf(members['account_id'])),
    ...member('project_id', textOf(members['project_id'])),
    ...member('labels', readLabels(members['labels'], 'attribution.labels', problems)),
  };
}

/**
 * At most 32 labels, names of 1 to 256 characters, values texts (decision 4.7). `__proto__` is a name like any other.
 */
function readLabels(value: Member, path: string, problems: EnvelopeProblems): Readonly<Record<string, string>> | undefined {
  if (!isJsonObject(value)) return undefined;
  const names = Object.keys(value);
  if (names.length > MAX_LABELS) problems.add(path, `must have at most ${MAX_LABELS} members`);
  const labels: Record<string, string> = emptyMap();
  for (const name of names.slice(0, MAX_LABELS)) {
    const text = value[name];
    if (name === '' || name.length > MAX_TEXT) problems.add(path, `has a name that is empty or longer than ${MAX_TEXT} characters`);
    else if (typeof text !== 'string' || text.length > MAX_TEXT)
      problems.add(`${path}.${name}`, `must be a string of at most ${MAX_TEXT} characters`);
    else if (holdsOwnToken(name) || holdsOwnToken(text)) problems.add(path, OWN_TOKEN_RULE);
    else labels[name] = text;
  }
  return labels;
}

function readActionNames(value: Member, problems: EnvelopeProblems): Members | undefined {
  if (!isJsonObject(value)) return undefined;
  const members: Record<string, Member> = emptyMap();
  for (const name of Object.keys(value)) {
    if (ACTION.has(name)) members[name] = value[name];
    else problems.add(`action.${name}`, 'is not a known member');
  }
  return members;
}
