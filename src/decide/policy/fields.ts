import { spelledPath, spelledValue } from '../../base/catalogue/spelling.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { nearestName } from '../../base/lib/mistakes.ts';
import { parseUsd, usdFromPico } from '../../base/lib/money.ts';
import { CONNECTION_TYPES, TRAFFIC_CLASSES } from '../../base/model/action-request.ts';
import type { Facts } from './facts.ts';

/**
 * How a field's values look and how a literal becomes one (policy.md 15). `open` fields take whatever the request
 * holds: the literal's own type decides. `host` is folded (decision 3.17), `method` upper-case, `connector` a canonical
 * id, `header_names` a list of lower-case names.
 */
export type FieldType =
  | 'text'
  | 'host'
  | 'method'
  | 'enum'
  | 'connector'
  | 'integer'
  | 'number'
  | 'money'
  | 'boolean'
  | 'time'
  | 'list'
  | 'connector_list'
  | 'header_names'
  | 'open';

export interface Field {
  /** Canonical name, without the leading `context.`. */
  readonly name: string;
  readonly type: FieldType;
  /** The observed value; undefined or null is a missing field. */
  readonly get: (facts: Facts) => unknown;
  /** The possible values of an `enum`. */
  readonly values?: readonly string[];
  /** How the value stands in a record (decision 7.4); undefined leaves it out. Without it: the value itself. */
  readonly observed?: (value: unknown) => unknown;
  /**
   * Set for a field that stands in lower case where its provider ignores case; then the literals of rules are compared
   * so too.
   */
  readonly folds?: (facts: Facts) => boolean;
}

const delegated = (get: (delegation: NonNullable<Facts['delegation']>) => unknown) => (facts: Facts) =>
  facts.delegation === undefined ? undefined : get(facts.delegation);

/**
 * The closed part of the table: every field that a rule can name (specification, "Policy bundle"; policy.md, end of
 * "Conditions").
 */
const FIELDS: readonly Field[] = [
  { name: 'org_id', type: 'text', get: (f) => f.org_id },
  { name: 'workload.id', type: 'text', get: (f) => f.workload_id },
  { name: 'caller_id', type: 'text', get: (f) => f.caller_id },
  { name: 'caller_ip', type: 'text', get: (f) => f.caller_ip },
  { name: 'connection_type', type: 'enum', get: (f) => f.connection_type, values: CONNECTION_TYPES },
  { name: 'traffic_class', type: 'enum', get: (f) => f.traffic_class, values: TRAFFIC_CLASSES },
  { name: 'time', type: 'time', get: (f) => f.time, observed: (value) => (typeof value === 'number' ? timestamp(value) : undefined) },
  { name: 'purpose', type: 'text', get: (f) => f.purpose },
  { name: 'stream', type: 'boolean', get: (f) => f.stream },
  { name: 'action.type', type: 'text', get: (f) => f.action_type },
  { name: 'action.method', type: 'method', get: (f) => f.action_method },
  {
    name: 'action.models',
    type: 'list',
    get: namedModels,
    folds: (f) => f.reading.foldsModel,
  },
  { name: 'action.target_host', type: 'host', get: (f) => f.target_host },
  { name: 'action.target_path', type: 'text', get: (f) => f.target_path, observed: queryNamesOnly, folds: (f) => f.reading.foldsPath },
  {
    name: 'action.headers_present',
    type: 'header_names',
    get: (f) => f.header_names,
    observed: (value) => (value instanceof Set ? [...value] : undefined),
  },
  { name: 'attribution.customer_id', type: 'text', get: (f) => f.attribution.customer_id },
  { name: 'attribution.account_id', type: 'text', get: (f) => f.attribution.account_id },
  { name: 'attribution.project_id', type: 'text', get: (f) => f.attribution.project_id },
  { name: 'estimates.tokens_in', type: 'integer', get: (f) => f.estimates.tokens_in },
  { name: 'estimates.tokens_out_max', type: 'integer', get: (f) => f.estimates.tokens_out_max },
  { name: 'estimates.cost_usd', type: 'money', get: (f) => f.estimates.cost_pico, observed: usdText },
  { name: 'risk.score', type: 'number', get: (f) => f.risk?.score },
  { name: 'risk.signals', type: 'list', get: (f) => f.risk?.signals },
  { name: 'connector.id', type: 'connector', get: (f) => f.connector_id },
  { name: 'credential.id', type: 'text', get: (f) => f.credential_id },
  { name: 'candidates.connectors', type: 'connector_list', get: (f) => f.candidates.connectors },
  { name: 'candidates.credentials', type: 'list', get: (f) => f.candidates.credentials },
  { name: 'delegation.issued_by', type: 'text', get: delegated((d) => d.issued_by) },
  { name: 'delegation.principal_id', type: 'text', get: delegated((d) => d.principal_id) },
  { name: 'delegation.audience', type: 'text', get: delegated((d) => d.audience) },
  { name: 'delegation.token_id', type: 'text', get: delegated((d) => d.token_id) },
  { name: 'delegation.depth', type: 'integer', get: delegated((d) => d.depth) },
  { name: 'delegation.policy_bundle_id', type: 'text', get: delegated((d) => d.policy_bundle_id) },
  // A text that is no amount stays text: a value of another type, so that negative tests take the restrictive side.
  {
    name: 'delegation.max_cost_usd',
    type: 'money',
    get: delegated((d) => (d.max_cost_usd === undefined ? undefined : (parseUsd(d.max_cost_usd) ?? d.max_cost_usd))),
    observed: usdText,
  },
  { name: 'delegation.actions_allow', type: 'list', get: delegated((d) => d.actions_allow) },
  { name: 'delegation.targets_allow', type: 'list', get: delegated((d) => d.targets_allow) },
];

/** All of them, the call's own first. */
function namedModels({ models, params }: Facts): readonly string[] | undefined {
  if (models !== undefined) return models;
  const own = Object.hasOwn(params, 'model') ? params['model'] : undefined;
  return typeof own === 'string' ? [own] : undefined;
}

const ALIASES: Readonly<Record<string, string>> = { 'workload.workload_id': 'workload.id' };

/** Maps with any key behind a fixed root. */
const OPEN_ROOTS: readonly { readonly root: string; readonly field: (suffix: string) => Field | undefined }[] = [
  {
    root: 'labels.',
    field: (key) => ({ name: `labels.${key}`, type: 'open', get: (f) => (Object.hasOwn(f.labels, key) ? f.labels[key] : undefined) }),
  },
  { root: 'attribution.labels.', field: attributionLabel },
  { root: 'action.params.', field: paramField },
  { root: 'action.header.', field: headerField },
];

const BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));

const PREFIX = 'context.';

/** Every closed name and open root, without `context.`; for hints and the reference page. */
export const FIELD_NAMES: readonly string[] = [
  ...FIELDS.map((field) => field.name),
  ...Object.keys(ALIASES),
  'labels.<key>',
  'attribution.labels.<key>',
  'action.params.<path>',
  'action.header.<name>',
];

/** Members of a body that people ask for by their bare name. */
const PARAMETERS: readonly string[] = ['model', 'messages', 'max_tokens', 'temperature', 'tools', 'user'];
/** What may be the name of a label, or of a member of the body. */
const NAME = /^[a-z][a-z0-9_-]*$/;

/** What people call a field before they have read its name. */
const SAID: Readonly<Record<string, string>> = {
  model: 'action.params.model',
  workload: 'workload.id',
  workload_id: 'workload.id',
  project: 'attribution.project_id',
  project_id: 'attribution.project_id',
  customer: 'attribution.customer_id',
  provider: 'connector.id',
  connector: 'connector.id',
  host: 'action.target_host',
  target_host: 'action.target_host',
  user: 'caller_id',
  caller: 'caller_id',
};

/**
 * What to write in the place of an unknown field: the known name that is near, one that ends so, or where labels are;
 * undefined when nothing can be said.
 */
export function fieldHint(path: string): string | undefined {
  const prefix = path.startsWith(PREFIX) ? PREFIX : '';
  const name = path.slice(prefix.length);
  // Where there is no prefix it may itself be misspelt.
  const whole = prefix === '' ? FIELD_NAMES.map((known) => `${PREFIX}${known}`) : [];
  const said = Object.hasOwn(SAID, name) ? SAID[name] : undefined;
  const meant = said ?? nearestName(name, [...FIELD_NAMES, ...whole]) ?? endingSo(name);
  if (meant !== undefined) return `did you mean "${prefix}${meant}"?`;
  const key = lastOf(name);
  return NAME.test(key)
    ? `a label is context.attribution.labels.${key}, a member of the body context.action.params.${key}; docs/reference/policy-language.md lists the others`
    : undefined;
}

function lastOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** The only known name whose last words these are. */
function endingSo(name: string): string | undefined {
  const last = lastOf(name);
  if (PARAMETERS.includes(last)) return `action.params.${last}`;
  const found = FIELDS.filter((field) => field.name.endsWith(`.${last}`));
  return found.length === 1 ? found[0]?.name : undefined;
}

/** Fields of open maps whose value is always one text. */
const ONE_TEXT = /^(?:labels\.|attribution\.labels\.|action\.params\.model$)/;

/**
 * Whether an open field is always one text, whatever a call says: a label, and the model that policy is asked about.
 */
export function isOneText({ name }: Field): boolean {
  return ONE_TEXT.test(name);
}

/** A name of the table with its field; of an open root the field of a sample. */
export function namedField(name: string): Field | undefined {
  return resolveField(name.replace(/<[^>]*>$/, 'x'));
}

/** The field of a path, with or without the leading `context.`; undefined when the table has none. */
export function resolveField(path: string): Field | undefined {
  const name = path.startsWith(PREFIX) ? path.slice(PREFIX.length) : path;
  const known = BY_NAME.get(Object.hasOwn(ALIASES, name) ? (ALIASES[name] ?? name) : name);
  if (known !== undefined) return known;
  for (const { root, field } of OPEN_ROOTS) {
    if (name.length > root.length && name.startsWith(root)) return field(name.slice(root.length));
  }
  return undefined;
}

function attributionLabel(key: string): Field {
  return {
    name: `attribution.labels.${key}`,
    type: 'open',
    get: ({ attribution: { labels } }) => (labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined),
  };
}

function paramField(path: string): Field | undefined {
  const segments = path.split('.');
  if (segments.includes('')) return undefined;
  const [only = ''] = segments;
  const exact: Field['get'] =
    segments.length === 1 ? (f) => (Object.hasOwn(f.params, only) ? f.params[only] : undefined) : (f) => valueAt(f.params, segments);
  const loose = spelledPath(path, 'proto');
  const oneSpelling = loose.every((spellings) => spellings.length === 1);
  return {
    name: `action.params.${path}`,
    type: 'open',
    get: oneSpelling ? exact : (f) => (f.reading.names === 'exact' ? exact(f) : spelledValue(f.params, loose)),
    observed: contentLeftOut(path),
    ...(path === 'model' ? { folds: (f: Facts) => f.reading.foldsModel } : {}),
  };
}

function headerField(name: string): Field {
  const lower = name.toLowerCase();
  return { name: `action.header.${lower}`, type: 'boolean', get: (f) => (f.header_names.has(lower) ? true : undefined) };
}

/** Walks own members of maps and items of lists; undefined where the way ends. */
export function valueAt(root: unknown, segments: readonly string[]): unknown {
  let at: unknown = root;
  for (const segment of segments) {
    if (Array.isArray(at)) at = /^(?:0|[1-9]\d{0,8})$/.test(segment) ? at[Number(segment)] : undefined;
    else if (isJsonObject(at) && Object.hasOwn(at, segment)) at = at[segment];
    else return undefined;
  }
  return at;
}

/** Of the body only the model, the stream switch and numbers are kept (decision 7.4). */
function contentLeftOut(path: string): (value: unknown) => unknown {
  return (value) => {
    if (typeof value === 'number') return value;
    if (path === 'model') return typeof value === 'string' && value.length <= 256 ? value : undefined;
    return path === 'stream' && typeof value === 'boolean' ? value : undefined;
  };
}

/** Values of a query can hold keys and content: a record has the names only (decision 7.2). */
function queryNamesOnly(value: unknown): unknown {
  if (typeof value !== 'string') return undefined;
  const query = value.indexOf('?');
  if (query === -1) return value;
  const names = value
    .slice(query + 1)
    .split('&')
    .map((pair) => pair.split('=', 1)[0]);
  return `${value.slice(0, query)}?${names.join('&')}`;
}

function usdText(value: unknown): unknown {
  return typeof value === 'bigint' ? usdFromPico(value) : undefined;
}
