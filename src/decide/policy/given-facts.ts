import { allNamed, type NamedModels } from '../../base/catalogue/named-models.ts';
import { PLAIN_READING, type Reading } from '../../base/catalogue/reading.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { readAmount } from '../../base/lib/amounts.ts';
import { parseTime } from '../../base/lib/clock.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { type AttributionKey, attributionFrom, attributionKey } from './attribution-keys.ts';
import { furtherOf, shownParams } from './every-model.ts';
import type { DelegationFacts, Facts } from './facts.ts';
import { type Field, type FieldType, fieldHint, resolveField } from './fields.ts';
import type { CallCost } from './judge-caps.ts';
import type { Mutation } from './verdict.ts';

/*
 * A request that somebody describes by the names that rules use: the facts of a test case, of an explanation, of a
 * record that is replayed (decision 7.4).
 */

/** A plain chat call, to which a description is applied. A new one each time: {@link giveFacts} changes it. */
export function plainCall(): Facts {
  return {
    org_id: 'default',
    workload_id: 'default',
    caller_id: undefined,
    caller_ip: '127.0.0.1',
    connection_type: 'direct_api',
    traffic_class: 'developer',
    time: Date.UTC(2026, 10, 21, 12),
    purpose: undefined,
    labels: {},
    action_type: 'ai.infer',
    action_method: 'POST',
    target_host: 'api.openai.com',
    target_path: '/v1/chat/completions',
    params: { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 },
    models: undefined,
    further: undefined,
    stream: false,
    reading: PLAIN_READING,
    header_names: new Set(['content-type']),
    attribution: {},
    org_attribution: undefined,
    estimates: { tokens_in: 10, tokens_out_max: 100, cost_pico: 3_050_000_000n },
    risk: undefined,
    connector_id: 'openai',
    credential_id: undefined,
    candidates: { connectors: ['openai'], credentials: [] },
    delegation: undefined,
    approved: false,
  };
}

/** Stands in the facts until a description gives a connector, or a path. */
const NOT_GIVEN = '(not given)';
const NO_CANDIDATES: readonly string[] = [];

/** Stands in the facts until a description gives an estimate; no real one has these values. */
const NOT_ESTIMATED: Facts['estimates'] = { tokens_in: Number.NaN, tokens_out_max: Number.NaN, cost_pico: -1n };

/** A plain call whose path, connector and estimate are to follow from what is described: see {@link settleFacts}. */
export function describedCall(): Facts {
  return {
    ...plainCall(),
    target_path: NOT_GIVEN,
    connector_id: NOT_GIVEN,
    candidates: { connectors: NO_CANDIDATES, credentials: [] },
    estimates: NOT_ESTIMATED,
  };
}

/** How much the gateway understands of a call. */
export interface ReadCall {
  readonly reading: Reading;
  /** Of a call whose body hides the rest. */
  readonly modelInPath: string | undefined;
  /** The models that its body names beside its own. */
  readonly named: NamedModels | undefined;
}

/** What a description says of the estimate. */
export interface StatedEstimate {
  readonly tokens_in?: number;
  readonly tokens_out_max?: number;
  readonly cost_pico?: bigint;
}

/** What follows from a call, as the gateway finds it. */
export interface CallMeaning {
  connectorFor(host: string): string;
  /** @param pathGiven whether the description names the path, so that its operation is meant */
  readingOf(facts: Facts, pathGiven: boolean): ReadCall;
  /** @param stated counts of tokens go before the gateway's own */
  estimateFor(facts: Facts, stated: StatedEstimate): Facts['estimates'] & { readonly reserve_pico: bigint; readonly planned?: boolean };
}

/**
 * Gives the connector of the host, the reading and the estimate of the call, where the description gave none. Without a
 * meaning they are those of the plain call.
 * @returns what the description states of the estimate
 */
export function settleFacts(facts: Facts, meaning: CallMeaning | undefined): StatedEstimate {
  if (facts.connector_id === NOT_GIVEN) facts.connector_id = meaning?.connectorFor(facts.target_host) ?? plainCall().connector_id;
  if (facts.candidates.connectors === NO_CANDIDATES)
    facts.candidates = { ...facts.candidates, connectors: facts.connector_id === undefined ? [] : [facts.connector_id] };
  const pathGiven = facts.target_path !== NOT_GIVEN;
  if (!pathGiven) facts.target_path = plainCall().target_path;
  if (meaning !== undefined) takeMeaning(facts, meaning.readingOf(facts, pathGiven));
  takeModels(facts);
  takeLabels(facts);
  const { tokens_in, tokens_out_max, cost_pico } = facts.estimates;
  const stated: StatedEstimate = {
    ...(Number.isInteger(tokens_in) ? { tokens_in } : {}),
    ...(Number.isInteger(tokens_out_max) ? { tokens_out_max } : {}),
    ...(cost_pico === NOT_ESTIMATED.cost_pico ? {} : { cost_pico }),
  };
  const found = meaning?.estimateFor(facts, stated) ?? plainCall().estimates;
  facts.estimates = {
    tokens_in: Number.isNaN(tokens_in) ? found.tokens_in : tokens_in,
    tokens_out_max: Number.isNaN(tokens_out_max) ? found.tokens_out_max : tokens_out_max,
    cost_pico: stated.cost_pico ?? found.cost_pico,
  };
  return stated;
}

/**
 * What the call may cost once it is mutated: that is what caps are held against (decision 4.6). A cost that the
 * description states stays.
 */
export function costOfCall(
  facts: Facts,
  mutations: readonly Mutation[],
  stated: StatedEstimate,
  meaning: CallMeaning | undefined,
): CallCost {
  const { cost_pico: given = meaning === undefined ? facts.estimates.cost_pico : undefined } = stated;
  if (given !== undefined || meaning === undefined) return { estimatePico: given ?? 0n, reservePico: given ?? 0n };
  const sent = { ...facts };
  for (const { key, value } of mutations) if (!key.startsWith('action.headers.')) giveFacts(sent, { [key]: value });
  const { cost_pico: estimatePico, reserve_pico: reservePico, planned = false } = meaning.estimateFor(sent, stated);
  return { estimatePico, reservePico, planned, hidden: sent.reading.hidesBody || sent.reading.hidesPrice };
}

/** Puts the described call into the form in which the gateway would see it. */
export function takeMeaning(facts: Facts, { reading, modelInPath, named }: ReadCall): void {
  const { model } = facts.params;
  facts.reading = reading;
  if (reading.foldsPath) facts.target_path = facts.target_path.toLowerCase();
  if (reading.hidesBody) {
    facts.params = modelInPath === undefined ? {} : { model: modelInPath };
    facts.stream = false;
  } else if (reading.foldsModel && typeof model === 'string') facts.params = { ...facts.params, model: model.toLowerCase() };
  facts.params = shownParams(facts.params, named);
  if (named !== undefined && !named.hidden) {
    facts.models = allNamed(facts.params['model'], named);
    facts.further = furtherOf(named);
  }
}

/** Further models that a description names by `context.action.models` alone, as a record does. */
export function takeModels(facts: Facts): void {
  const { models, params, reading } = facts;
  if (models === undefined || facts.further !== undefined || reading.hidesModel) return;
  const further = models.filter((model) => model !== params['model']);
  if (further.length > 0) facts.further = further.map((model) => ({ model, said: undefined }));
}

/**
 * A label that is described by one of its names is there by the other too, as one that a caller gives is (decision
 * 4.8); null takes it away by one name alone.
 */
function takeLabels(facts: Facts): void {
  const { labels, attribution } = facts;
  const charged = attribution.labels ?? {};
  if (Object.keys(labels).length === 0 && Object.keys(charged).length === 0) return;
  facts.labels = { ...charged, ...labels };
  facts.attribution = { ...attribution, labels: { ...labels, ...charged } };
}

export interface FactMistake {
  /** The name as it was given, with those around it. */
  readonly path: string;
  readonly message: string;
  readonly hint?: string;
}

/**
 * Sets the named fields, with or without the leading `context.`; a map stands for the names below it, so `action:
 * {method: GET}` is `action.method: GET`. `action.params`, `labels` and `attribution.labels` are replaced when they are
 * given as a whole. Null takes a field away; in the body it is a null. `org_attribution` is the org's last resort, by
 * flat names (decision 6.11); `approved` says that a person has approved this very request, or for which rules
 * (decision 9.1).
 */
export function giveFacts(facts: Facts, given: Readonly<Record<string, unknown>>, prefix = ''): readonly FactMistake[] {
  return Object.entries(given).flatMap(([name, value]) => giveFact(facts, prefix === '' ? name : `${prefix}.${name}`, value));
}

function giveFact(facts: Facts, path: string, value: unknown): readonly FactMistake[] {
  const name = path.startsWith('context.') ? path.slice('context.'.length) : path;
  if (Object.hasOwn(WHOLE, name))
    return isJsonObject(value) ? (WHOLE[name]?.(facts, value, path) ?? []) : [{ path, message: `${name} is a map` }];
  if (name === 'approved') return giveApproved(facts, path, value);
  const field = resolveField(name);
  if (field === undefined) return isJsonObject(value) ? giveFacts(facts, value, path) : [unknownField(path)];
  const { read, expected } = READERS[field.type];
  const fact = value === null ? undefined : read(value, field);
  if (value !== null && fact === undefined) return [{ path, message: `${field.name} is ${expected}` }];
  setField(facts, field.name, value === null && field.name.startsWith(BODY) ? null : fact);
  return [];
}

function giveApproved(facts: Facts, path: string, value: unknown): readonly FactMistake[] {
  const rules = texts(value);
  if (typeof value !== 'boolean' && rules === undefined)
    return [{ path, message: 'approved is true or false, or a list of rules as layer/id' }];
  facts.approved = rules === undefined ? value === true : ({ layer, id }) => rules.includes(`${layer}/${id}`);
  return [];
}

function unknownField(path: string): FactMistake {
  const hint = fieldHint(path);
  return { path, message: `unknown field "${path}"`, ...(hint === undefined ? {} : { hint }) };
}

type GiveWhole = (facts: Facts, value: Readonly<Record<string, unknown>>, path: string) => readonly FactMistake[];

const WHOLE: Readonly<Record<string, GiveWhole>> = {
  'action.params': (facts, body) => {
    facts.params = body;
    if (typeof body['stream'] === 'boolean') facts.stream = body['stream'];
    return [];
  },
  labels: (facts, labels, path) => {
    facts.labels = {};
    return giveFacts(facts, labels, path);
  },
  'attribution.labels': (facts, labels, path) => {
    facts.attribution = { ...facts.attribution, labels: {} };
    return giveFacts(facts, labels, path);
  },
  org_attribution: (facts, values, path) => {
    const entries: (readonly [AttributionKey, string])[] = [];
    for (const [name, value] of Object.entries(values)) {
      const key = attributionKey(name);
      if (key === undefined || typeof value !== 'string')
        return [{ path: `${path}.${name}`, message: 'is no attribution key with a text' }];
      entries.push([key, value]);
    }
    facts.org_attribution = attributionFrom(entries);
    return [];
  },
};

interface FactReader {
  /** From JSON or YAML data, which is never converted from one type to another; undefined when it is none. */
  readonly read: (value: unknown, field: Field) => unknown;
  readonly expected: string;
}

const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
const texts = (value: unknown) => (Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : undefined);
const TEXT: FactReader = { read: text, expected: 'a text (quote it)' };
const TEXTS: FactReader = { read: texts, expected: 'a list of texts' };

const READERS: Readonly<Record<FieldType, FactReader>> = {
  text: TEXT,
  connector: TEXT,
  host: { read: (value) => (typeof value === 'string' ? canonicalHost(value) : undefined), expected: 'a host name' },
  method: { read: (value) => text(value)?.toUpperCase(), expected: 'a method' },
  enum: { read: (value, { values }) => (values?.includes(String(value)) ? value : undefined), expected: 'one of the known values' },
  integer: { read: (value) => (Number.isSafeInteger(value) ? value : undefined), expected: 'a whole number' },
  number: { read: (value) => (typeof value === 'number' && Number.isFinite(value) ? value : undefined), expected: 'a number' },
  // As text where the facts hold text: what is no amount is a value of another type there.
  money: {
    read: (value, { name }) => (name === 'delegation.max_cost_usd' ? text(value) : readAmount(String(value))),
    expected: 'an amount such as "0.25"',
  },
  boolean: { read: (value) => (typeof value === 'boolean' ? value : undefined), expected: 'true or false' },
  time: { read: (value) => parseTime(text(value) ?? ''), expected: 'a time such as "2027-01-31T08:00:00Z"' },
  list: TEXTS,
  connector_list: TEXTS,
  header_names: {
    read: (value) => texts(value) && new Set(texts(value)?.map((name) => name.toLowerCase())),
    expected: 'a list of header names',
  },
  open: { read: (value) => value, expected: 'a value' },
};

const BODY = 'action.params.';
const HEADER = 'action.header.';

/** Where fields stand in the facts, when their own name does not say it. */
const PLACES: Readonly<Record<string, string>> = {
  'workload.id': 'workload_id',
  'action.type': 'action_type',
  'action.method': 'action_method',
  'action.models': 'models',
  'action.target_host': 'target_host',
  'action.target_path': 'target_path',
  'action.headers_present': 'header_names',
  'connector.id': 'connector_id',
  'credential.id': 'credential_id',
  'estimates.cost_usd': 'estimates.cost_pico',
};

const NEW_RISK: NonNullable<Facts['risk']> = { score: 0, signals: [] };
const NEW_DELEGATION: DelegationFacts = {
  issued_by: undefined,
  principal_id: undefined,
  audience: undefined,
  token_id: 'token',
  depth: 1,
  policy_bundle_id: undefined,
  max_cost_usd: undefined,
  actions_allow: undefined,
  targets_allow: undefined,
};

function setField(facts: Facts, name: string, value: unknown): void {
  if (name.startsWith(HEADER)) {
    const names = new Set(facts.header_names);
    if (value === true) names.add(name.slice(HEADER.length));
    else names.delete(name.slice(HEADER.length));
    facts.header_names = names;
    return;
  }
  if (name.startsWith('risk.')) facts.risk ??= NEW_RISK;
  if (name.startsWith('delegation.')) facts.delegation ??= NEW_DELEGATION;
  const place = name.startsWith(BODY) ? name.replace('action.', '') : (PLACES[name] ?? name);
  Object.assign(facts, withMember(facts, wayTo(place), value));
  if (typeof value === 'boolean' && name === 'action.params.stream') facts.stream = value;
}

/** A label's key may hold dots. */
function wayTo(place: string): readonly string[] {
  const [, root, label] = /^((?:attribution\.)?labels)\.(.+)$/.exec(place) ?? [];
  return root === undefined || label === undefined ? place.split('.') : [...root.split('.'), label];
}

/** A copy in which the member at the end of the way has the value, or is missing when that is undefined. */
function withMember(from: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  if (Array.isArray(from) && /^\d{1,4}$/.test(name)) return from.with(Number(name), withMember(from[Number(name)], rest, value));
  const members = isJsonObject(from) ? from : {};
  const own = Object.hasOwn(members, name) ? members[name] : undefined;
  return Object.fromEntries([...Object.entries(members).filter(([key]) => key !== name), [name, withMember(own, rest, value)]]);
}
