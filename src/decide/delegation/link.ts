import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { parseTime } from '../../base/lib/clock.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { percentDecoded } from '../../base/lib/text.ts';
import type { Attribution } from '../../base/model/action-request.ts';

/** What a link allows. An absent list restricts nothing, an empty one allows nothing (decision 9.4). */
export interface Limits {
  readonly actions: readonly string[] | undefined;
  /** Canonical hosts. */
  readonly targets: readonly string[] | undefined;
  /** In upper case. */
  readonly methods: readonly string[] | undefined;
  /** Segments of each pattern. */
  readonly resources: readonly (readonly string[])[] | undefined;
  readonly models: readonly string[] | undefined;
  readonly overrides: readonly string[] | undefined;
  /** Pico-dollars over the life of the token. */
  readonly usdMax: bigint | undefined;
}

/** One token of a chain, its fields read. */
export interface DelegationLink {
  readonly delegationId: string;
  readonly orgId: string;
  readonly workloadId: string;
  readonly principalId: string | undefined;
  readonly issuedBy: string | undefined;
  readonly audience: string | undefined;
  readonly policyBundleId: string | undefined;
  /** Milliseconds since the epoch. */
  readonly issuedAt: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly limits: Limits;
  /** Who is charged where the caller may not say or does not. */
  readonly defaults: Attribution;
}

const SCOPE = new Set(['actions_allow', 'targets_allow', 'methods_allow', 'resource_patterns_allow']);
const BUDGET = new Set(['usd_max', 'allowed_models']);
const MAX_TEXT = 256;
const ID = /^[\x21-\x7e]{1,128}$/;
const MAX_LABELS = 32;
const LABEL = 'labels.';
const NOTHING: JsonObject = {};

/**
 * Reads the fields of a token whose signature holds. Members that are not known are ignored beside the known ones, and
 * refused where they would restrict.
 * @throws DelegationError `delegation_malformed`
 */
export function readLink(token: JsonObject): DelegationLink {
  const scope = part(token, 'scope', SCOPE);
  const budget = part(token, 'budget', BUDGET);
  const attribution = part(token, 'attribution');
  return {
    delegationId: id(token, 'delegation_id'),
    orgId: id(token, 'org_id'),
    workloadId: id(token, 'workload_id'),
    principalId: text(token, 'principal_id'),
    issuedBy: text(token, 'issued_by'),
    audience: text(token, 'audience'),
    policyBundleId: text(token, 'policy_bundle_id'),
    issuedAt: time(token, 'issued_at'),
    expiresAt: time(token, 'expires_at'),
    limits: {
      actions: list(scope, 'actions_allow'),
      targets: list(scope, 'targets_allow')?.map((host) => canonicalHost(host) ?? malformed('targets_allow names no host')),
      methods: list(scope, 'methods_allow')?.map((method) => method.toUpperCase()),
      resources: list(scope, 'resource_patterns_allow')?.map(
        (pattern) => patternSegments(pattern) ?? malformed('resource_patterns_allow holds no pattern of a path'),
      ),
      models: list(budget, 'allowed_models'),
      overrides: list(attribution, 'allow_overrides'),
      usdMax: amount(budget),
    },
    defaults: defaultsOf(part(attribution, 'defaults')),
  };
}

function part(of: JsonObject, name: string, known?: ReadonlySet<string>): JsonObject {
  const value = of[name];
  if (value === undefined) return NOTHING;
  if (!isJsonObject(value)) malformed(`${name} is not an object`);
  if (known !== undefined && Object.keys(value).some((member) => !known.has(member))) malformed(`${name} has a member that is not known`);
  return value;
}

function text(of: JsonObject, name: string): string | undefined {
  const value = of[name];
  if (value === undefined) return undefined;
  if (typeof value !== 'string' || value === '' || value.length > MAX_TEXT)
    malformed(`${name} is not a text of 1 to ${MAX_TEXT} characters`);
  return value;
}

function id(of: JsonObject, name: string): string {
  const value = text(of, name);
  return value !== undefined && ID.test(value) ? value : malformed(`${name} is not 1 to 128 visible ASCII characters`);
}

function time(of: JsonObject, name: string): number {
  const value = text(of, name);
  return (value === undefined ? undefined : parseTime(value)) ?? malformed(`${name} is not an RFC 3339 time`);
}

function list(of: JsonObject, name: string): readonly string[] | undefined {
  const value = of[name];
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((element) => typeof element === 'string')) malformed(`${name} is not a list of texts`);
  return value;
}

/** `labels` as a map, or `labels.<key>` beside the ids; members that are not known are ignored. */
function defaultsOf(given: JsonObject): Attribution {
  const labels: Record<string, string> = Object.create(null) as Record<string, string>;
  const named = part(given, 'labels');
  for (const key of Object.keys(named)) labels[key] = label(named, key);
  for (const name of Object.keys(given)) if (name.startsWith(LABEL)) labels[name.slice(LABEL.length)] ??= label(given, name);
  if (Object.keys(labels).length > MAX_LABELS) malformed(`attribution.defaults has more than ${MAX_LABELS} labels`);
  const [customer, account, project] = [text(given, 'customer_id'), text(given, 'account_id'), text(given, 'project_id')];
  return {
    ...(customer === undefined ? {} : { customer_id: customer }),
    ...(account === undefined ? {} : { account_id: account }),
    ...(project === undefined ? {} : { project_id: project }),
    ...(Object.keys(labels).length === 0 ? {} : { labels: { ...labels } }),
  };
}

function label(of: JsonObject, name: string): string {
  return text(of, name) ?? malformed(`${name} is not a text`);
}

function amount(budget: JsonObject): bigint | undefined {
  const value = budget['usd_max'];
  if (value === undefined) return undefined;
  return (typeof value === 'string' ? parseUsd(value) : undefined) ?? malformed('usd_max is not a decimal text');
}

/** Why a delegation token does not hold. These are the reason codes of the denial (decision 9.4). */
export type DelegationCode =
  | 'delegation_malformed'
  | 'delegation_unknown_key'
  | 'delegation_bad_signature'
  | 'delegation_expired'
  | 'delegation_not_yet_valid'
  | 'delegation_org_mismatch'
  | 'delegation_workload_mismatch'
  | 'delegation_method_not_allowed'
  | 'delegation_resource_not_allowed'
  | 'delegation_action_not_allowed'
  | 'delegation_target_not_allowed'
  | 'delegation_model_not_allowed'
  | 'delegation_depth_exceeded'
  | 'delegation_bundle_mismatch'
  | 'delegation_revoked'
  | 'delegation_not_attenuated';

/**
 * A token that is not accepted. The message quotes nothing of the token: it was not verified, or names what its issuer
 * may keep to itself.
 */
export class DelegationError extends Error {
  readonly code: DelegationCode;

  constructor(code: DelegationCode, message: string) {
    super(message);
    this.name = 'DelegationError';
    this.code = code;
  }
}

/** @throws DelegationError `delegation_malformed` */
export function malformed(what: string): never {
  throw new DelegationError('delegation_malformed', `The delegation token is malformed: ${what}.`);
}

const HIDDEN_SEPARATOR = /[/\\]/;

/**
 * The segments of a path without its query, each decoded once.
 * @returns undefined for what two servers could read as two paths: empty and dot segments, encoded or literal
 * backslashes, encoded slashes, bad encodings
 */
export function pathSegments(path: string): readonly string[] | undefined {
  const bare = path.split('?', 1)[0] ?? '';
  if (!bare.startsWith('/')) return undefined;
  if (bare === '/') return [];
  const segments: string[] = [];
  for (const part of bare.slice(1).split('/')) {
    const segment = percentDecoded(part);
    if (segment === undefined || segment === '' || segment === '.' || segment === '..' || HIDDEN_SEPARATOR.test(segment)) return undefined;
    segments.push(segment);
  }
  return segments;
}

/**
 * The segments of a pattern, in which `*` alone stands for one segment.
 * @returns undefined for a star within a segment, and for what no path is
 */
function patternSegments(pattern: string): readonly string[] | undefined {
  const segments = pattern.includes('?') ? undefined : pathSegments(pattern);
  return segments?.some((segment) => segment !== '*' && segment.includes('*')) === true ? undefined : segments;
}

/** Whether the pattern lets through all that `inner` does: a path, or another pattern. */
export function covers(pattern: readonly string[], inner: readonly string[]): boolean {
  return pattern.length === inner.length && pattern.every((segment, i) => segment === '*' || segment === inner[i]);
}
