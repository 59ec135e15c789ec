import { isJsonObject } from '../base/json/json-object.ts';
import { canonicalHost } from '../base/lib/host.ts';
import { EXECUTION_RECORD_SCHEMA } from '../base/model/execution-record.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import type { IsKnown } from '../decide/policy/condition-logic.ts';
import { isNeverThere } from '../decide/policy/door-fields.ts';
import type { Facts } from '../decide/policy/facts.ts';
import type { Field } from '../decide/policy/fields.ts';
import { giveFacts, plainCall, type ReadCall, takeMeaning, takeModels } from '../decide/policy/given-facts.ts';
import { showsField } from '../decide/policy/hidden.ts';

/** What a record tells of the request that was decided (decision 7.4). */
export interface RecordedRequest {
  readonly recordId: string;
  /** As the record says it, `error` included. */
  readonly decision: string;
  readonly reasonCodes: readonly string[];
  /** `layer/id` of the rules that took part, sorted. */
  readonly matched: readonly string[];
  readonly bundleId: string;
  readonly version: string;
  /** Of the texts that decided, its first digits; undefined in records of older versions. */
  readonly contentHash: string | undefined;
  readonly facts: Facts;
  readonly isKnown: IsKnown;
}

/** Record members and the fields whose value they hold, whatever the decision was. */
const SAME: readonly (readonly [member: string, field: string])[] = [
  ['org_id', 'org_id'],
  ['workload_id', 'workload.id'],
  ['caller_id', 'caller_id'],
  ['caller_ip', 'caller_ip'],
  ['connection_type', 'connection_type'],
  ['traffic_class', 'traffic_class'],
  ['created_at', 'time'],
  ['action_type', 'action.type'],
  ['action_method', 'action.method'],
  ['target_host', 'action.target_host'],
  ['stream', 'stream'],
  ['connector_id', 'connector.id'],
  ['credential_id', 'credential.id'],
  ['customer_id', 'attribution.customer_id'],
  ['account_id', 'attribution.account_id'],
  ['project_id', 'attribution.project_id'],
  ['risk_score', 'risk.score'],
  ['risk_signals', 'risk.signals'],
];
/** Of a call that has used its approval. */
const LET_THROUGH: ReadonlySet<unknown> = new Set(['allow', 'downgrade', 'error']);
const KNOWN: ReadonlySet<string> = new Set(SAME.map(([, field]) => field));
/** Those that are cut, or left out, in records of callers who have shown nothing. */
const CUT: ReadonlySet<string> = new Set(['caller_id', 'attribution.customer_id', 'attribution.account_id', 'attribution.project_id']);
const MODEL = 'action.params.model';
const MODELS = 'action.models';
const PATH = 'action.target_path';
const BODY = 'action.params.';
/** Fields that can have no value when policy is asked and one in the record. */
const LATER = /^(?:attribution\.|credential\.id$|connector\.id$)/;

export function isExecutionRecord(given: Readonly<Record<string, unknown>>): boolean {
  return given['schema'] === EXECUTION_RECORD_SCHEMA;
}

/**
 * The request behind a record; undefined when policy was not asked about it. A value that policy saw
 * (`policy_trace.attributes`) counts before what the record says elsewhere. A field that is in neither is missing if
 * the policy that decided read it, else unknown.
 * @param candidates policies of which one may be the one that decided
 * @param readingOf how much the gateway understands of such a call
 * @param hashOf the SHA-256 over the texts of a candidate, as the gateway makes it; undefined: that is not known, and
 * name and version tell them apart
 */
export function recordedRequest(
  record: Readonly<Record<string, unknown>>,
  candidates: readonly CompiledPolicy[],
  readingOf?: (facts: Facts) => ReadCall,
  hashOf?: (policy: CompiledPolicy) => string | undefined,
): RecordedRequest | undefined {
  const trace = record['policy_trace'];
  if (!isJsonObject(trace)) return undefined;
  // Records of callers who have shown nothing are cut: what is not there may have been (decision 7.11).
  const isCut = !isJsonObject(trace['attributes']);
  const attributes = isJsonObject(trace['attributes']) ? trace['attributes'] : {};
  const facts: Facts = { ...plainCall(), caller_ip: undefined, connector_id: undefined, params: {}, header_names: new Set() };
  giveFacts(facts, fieldsOf(record));
  // What was given in the end meets requirements, whoever gave it.
  facts.org_attribution = facts.attribution;
  facts.approved = record['approval_id'] !== undefined && LET_THROUGH.has(record['decision']);
  const bundleId = text(trace['bundle_id']);
  const version = text(trace['version']);
  const contentHash = typeof trace['content_hash'] === 'string' ? trace['content_hash'] : undefined;
  const decidedBy = candidates.find(
    (policy) => policy.bundle_id === bundleId && policy.version === version && isSameContent(contentHash, hashOf?.(policy)) !== false,
  );
  const read = new Set(isCut ? [] : decidedBy?.fields.map(({ name }) => name));
  const isDelegated = record['delegation_chain'] !== undefined;
  const chain = delegationIn(record['delegation_chain']);
  giveFacts(facts, chain);
  giveFacts(facts, missingThen(read));
  giveFacts(facts, attributes);
  if (readingOf !== undefined) takeMeaning(facts, readingOf(facts));
  takeModels(facts);
  const isKnown = (field: Field): boolean => {
    const { name } = field;
    // What the request itself hid is for the policy to say.
    if (!showsField(facts, field)) return true;
    if (`context.${name}` in attributes || isHeld(name, { isCut, isDelegated, chain })) return true;
    // What never comes by the door of the call was not there.
    if (isNeverThere(name, facts.connection_type)) return true;
    if (name === PATH) return !facts.target_path.includes('?');
    // Without further models in the record there was no more than one.
    if (name === MODELS || (name === MODEL && facts.params['model'] !== undefined)) return facts.params['model'] !== undefined;
    // A body's texts are left out of records, so that nothing there does not mean that nothing was there.
    return read.has(name) && !name.startsWith(BODY);
  };
  return {
    recordId: text(record['record_id']),
    decision: text(record['decision']),
    reasonCodes: texts(record['reason_codes']),
    matched: matchedRules(trace),
    bundleId,
    version,
    contentHash,
    facts,
    isKnown,
  };
}

/** Whether a record holds the value of a field whatever the rules read, or that there was none. */
function isHeld(
  name: string,
  {
    isCut,
    isDelegated,
    chain,
  }: { readonly isCut: boolean; readonly isDelegated: boolean; readonly chain: Readonly<Record<string, unknown>> },
): boolean {
  if (KNOWN.has(name)) return !(isCut && CUT.has(name));
  if (name.startsWith('attribution.labels.')) return !isCut;
  return name.startsWith('delegation.') && !isCut && (!isDelegated || name in chain);
}

/**
 * Fields that the policy read: whatever the record says of them came later (a default, a selection), unless the trace
 * has them.
 */
function missingThen(read: ReadonlySet<string>): Readonly<Record<string, null>> {
  return Object.fromEntries([...read].filter((name) => LATER.test(name)).map((name) => [name, null]));
}

/**
 * What the links of a delegation say together, by the names of fields; what a record does not hold of them is left out.
 */
function delegationIn(chain: unknown): Readonly<Record<string, unknown>> {
  const links = Array.isArray(chain) ? chain.filter(isJsonObject) : [];
  const last = (member: string): unknown => links.map((link) => link[member]).findLast((value) => value !== undefined);
  if (links.length === 0) return {};
  return {
    'delegation.token_id': last('delegation_id') ?? null,
    'delegation.issued_by': last('issued_by') ?? null,
    'delegation.principal_id': last('principal_id') ?? null,
  };
}

/** Whether a policy is the one of a record, by what both are made of; undefined where one of them does not say. */
export function isSameContent(recorded: string | undefined, hash: string | undefined): boolean | undefined {
  return recorded === undefined || hash === undefined ? undefined : hash.startsWith(recorded);
}

function matchedRules(trace: Readonly<Record<string, unknown>>): readonly string[] {
  const layers = texts(trace['matched_layers']);
  return texts(trace['matched_rule_ids'])
    .map((id, i) => `${layers[i] ?? ''}/${id}`)
    .sort();
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(text) : [];
}

function fieldsOf(record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const given: Record<string, unknown> = {};
  for (const [member, field] of SAME) {
    const value = record[member];
    if (value !== undefined && (member !== 'target_host' || canonicalHost(text(value)) !== undefined)) given[field] = value;
  }
  if (isJsonObject(record['labels'])) given['attribution.labels'] = record['labels'];
  if (typeof record['target_path'] === 'string') given[PATH] = record['target_path'];
  // A downgrade sends another model than was asked for.
  if (record['model'] !== undefined && record['decision'] !== 'downgrade') given[MODEL] = record['model'];
  return given;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
