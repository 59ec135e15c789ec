import { allNamed } from '../../base/catalogue/named-models.ts';
import { type Reading, readingOf } from '../../base/catalogue/reading.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { Credential } from '../../base/model/keys.ts';
import { furtherOf, shownParams } from '../../decide/policy/every-model.ts';
import type { Facts, FurtherModel } from '../../decide/policy/facts.ts';
import type { Delegation } from '../../services/people/delegations.ts';
import type { Arrived, Caller, CallRoute, Claims, Content, ReceivedAction } from './parts.ts';

const NO_LABELS: Facts['labels'] = {};
const NO_CREDENTIALS: readonly string[] = [];

/** What policy is asked about. */
export interface AskedCall {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly attribution: Attribution;
  /** Absent where `attribution` has what its org gives. */
  readonly caller?: Caller;
  readonly delegated?: Delegation | undefined;
  readonly route: CallRoute;
  readonly content: Content;
  readonly risk?: Facts['risk'];
  /** Another than the one that takes the call, to ask about that. */
  readonly connectorId?: string;
  readonly approved?: Facts['approved'];
}

/**
 * Everything a rule may ask about this request (see the field table of the policy language). A class, because an object
 * literal with a getter in it is a slow object: 1.5 µs per request to make, and every look at it slower.
 */
export class CallFacts implements Facts {
  readonly org_id: string;
  readonly workload_id: string;
  readonly caller_id: string | undefined;
  readonly caller_ip: string | undefined;
  readonly connection_type: Facts['connection_type'];
  readonly traffic_class: Facts['traffic_class'];
  readonly time: number;
  readonly purpose: string | undefined;
  readonly labels: Facts['labels'];
  readonly action_type: string;
  readonly action_method: string;
  readonly target_host: string;
  readonly target_path: string;
  readonly params: Facts['params'];
  readonly models: readonly string[] | undefined;
  readonly further: readonly FurtherModel[] | undefined;
  readonly stream: boolean;
  readonly reading: Reading;
  readonly attribution: Facts['attribution'];
  readonly org_attribution: Facts['org_attribution'];
  readonly estimates: Facts['estimates'];
  readonly risk: Facts['risk'];
  readonly connector_id: string | undefined;
  readonly credential_id: string | undefined;
  readonly candidates: Facts['candidates'];
  readonly delegation: Facts['delegation'];
  readonly approved: Facts['approved'];
  readonly #headers: readonly string[];
  #headerNames: ReadonlySet<string> | undefined;

  constructor({
    arrival,
    claims,
    caller,
    delegated,
    action,
    attribution,
    route,
    content,
    risk,
    connectorId = route.connectorId,
    approved = false,
  }: AskedCall) {
    const { estimate, provider, operation, path, named } = route;
    const { context } = action.request;
    const { params } = content;
    this.org_id = claims.orgId;
    this.workload_id = claims.workloadId;
    this.caller_id = claims.callerId;
    this.caller_ip = arrival.callerIp;
    this.connection_type = arrival.connectionType;
    this.traffic_class = arrival.trafficClass;
    this.time = arrival.createdAt;
    this.purpose = context?.purpose;
    // Where a call has one place for labels, they are there by both names (decision 4.8).
    this.labels = context?.labels ?? claims.attribution.labels ?? NO_LABELS;
    this.action_type = route.actionType;
    this.action_method = route.method;
    this.target_host = route.host;
    this.reading = readingOf(provider, operation, params['model'] !== undefined, named);
    this.target_path = this.reading.foldsPath ? path.toLowerCase() : path;
    this.params = shownParams(params, named);
    // Of what is hidden nobody knows all, and nothing is judged by the rest.
    const known = named === undefined || named.hidden ? undefined : named;
    this.models = known && allNamed(route.model, known);
    this.further = known && furtherOf(known);
    this.stream = route.stream;
    this.attribution = attribution;
    this.org_attribution = caller?.orgAttribution;
    this.estimates = {
      tokens_in: estimate?.tokensIn ?? 0,
      tokens_out_max: estimate?.tokensOutMax ?? 0,
      cost_pico: estimate?.costPico ?? 0n,
    };
    this.risk = risk;
    this.connector_id = connectorId;
    this.credential_id = route.credentialId;
    this.candidates = { connectors: route.candidates, credentials: idsOf(route.credentialCandidates) };
    this.delegation = delegated?.facts;
    this.approved = approved;
    this.#headers = content.headers;
  }

  /** Few rules ask for headers, so the set is made when one does. */
  get header_names(): ReadonlySet<string> {
    this.#headerNames ??= headerNames(this.#headers);
    return this.#headerNames;
  }
}

function idsOf(credentials: readonly Credential[]): readonly string[] {
  return credentials.length === 0 ? NO_CREDENTIALS : credentials.map(({ credential_id: id }) => id);
}

function headerNames(flat: readonly string[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (let at = 0; at < flat.length; at += 2) names.add((flat[at] ?? '').toLowerCase());
  return names;
}
