import { GENERIC_HTTP } from '../base/catalogue/connector-id.ts';
import { namedModels } from '../base/catalogue/named-models.ts';
import { planPrice } from '../base/catalogue/prices/plan-price.ts';
import { modelInPath, PLAIN_READING, readingOf } from '../base/catalogue/reading.ts';
import type { Catalogue } from '../base/catalogue/types.ts';
import { usualPath } from '../base/catalogue/usual-path.ts';
import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { ACTION_REQUEST_SCHEMA } from '../base/model/action-request.ts';
import type { Facts } from '../decide/policy/facts.ts';
import {
  type CallMeaning,
  costOfCall,
  describedCall,
  type FactMistake,
  giveFacts,
  type ReadCall,
  type StatedEstimate,
  settleFacts,
} from '../decide/policy/given-facts.ts';
import type { CallCost } from '../decide/policy/judge-caps.ts';
import type { Mutation } from '../decide/policy/verdict.ts';
import { estimateCall } from '../decide/pricing/estimate.ts';
import { type ActionTypeMap, chooseConnector } from '../decide/routing/choose-connector.ts';

export interface GivenRequest {
  readonly facts: Facts;
  /** What it may cost once it is mutated so. */
  readonly costAfter: (mutations: readonly Mutation[]) => CallCost;
  readonly mistakes: readonly FactMistake[];
}

type Members = Readonly<Record<string, unknown>>;

/** Members of an ActionRequest that no rule can read. */
const NOT_READ: ReadonlySet<string> = new Set([
  'schema',
  'request_id',
  'credential_hint',
  'connector_hint',
  'idempotency_key',
  'delegation_id',
  'delegation_token',
]);

/** Whether the data is the body of `POST /v1/actions:execute`, rather than fields by their names. */
export function isActionRequest(given: Members): boolean {
  return given['schema'] === ACTION_REQUEST_SCHEMA || ('workload_id' in given && isJsonObject(given['action']));
}

/**
 * What the gateway knows beside the request: who serves which host, at which price, and which types an operator has
 * mapped.
 */
export interface Surroundings {
  readonly catalogue: Catalogue;
  readonly actionTypes: ActionTypeMap;
  /** `GW_PRICING_CACHED`. */
  readonly pricingCached: boolean;
}

/**
 * The facts of a request that is described by field names, as in test cases, or given as an ActionRequest; connector
 * and estimate as the gateway finds them.
 */
export function factsOfRequest(given: Members, surroundings: Surroundings): GivenRequest {
  const facts = describedCall();
  const direct = isActionRequest(given);
  const mistakes = [...giveFacts(facts, direct ? fieldsOf(given) : given)];
  if (direct && mistakes.length === 0) mistakes.push(...routeDirect(facts, given, surroundings));
  const meaning = callMeaning(surroundings);
  const stated = settleFacts(facts, meaning);
  return { facts, mistakes, costAfter: (mutations) => costOfCall(facts, mutations, stated, meaning) };
}

/** Connector and estimate of a described call. */
export function callMeaning({ catalogue, pricingCached }: Surroundings): CallMeaning {
  return {
    connectorFor: (targetHost) => chooseConnector(catalogue, { targetHost }).connectorId,
    readingOf: (facts, pathGiven) => readCall(facts, pathGiven, catalogue),
    estimateFor: (facts, stated) => estimateOf(facts, stated, catalogue, pricingCached),
  };
}

/** How the gateway would read a described call; of one without a path only the form of its provider's usual calls. */
export function readCall(facts: Facts, pathGiven: boolean, catalogue: Catalogue): ReadCall {
  const provider = catalogue.providerForHost(facts.target_host);
  if (provider === undefined) return { reading: PLAIN_READING, modelInPath: undefined, named: undefined };
  const path = pathGiven ? facts.target_path : (provider.defaultPath ?? '').replace('{model}', 'm');
  const operation = catalogue.operation(provider, pathGiven ? facts.action_method : 'POST', path);
  const inPath = pathGiven ? modelInPath(operation, path) : undefined;
  const hasModel = inPath !== undefined || (operation.known && facts.params['model'] !== undefined);
  const named = namedModels(operation, facts.params);
  const reading = readingOf(provider, operation, hasModel, named);
  return { reading: pathGiven ? reading : { ...reading, hidesModel: reading.hidesPrice, hidesBody: false }, modelInPath: inPath, named };
}

/** As the structured API routes: by hint, by action type, by host (specification, "Connector routing precedence"). */
function routeDirect(facts: Facts, request: Members, { catalogue, actionTypes }: Surroundings): readonly FactMistake[] {
  const hint = request['connector_hint'];
  try {
    const question = {
      connectorHint: typeof hint === 'string' ? hint : undefined,
      actionType: facts.action_type,
      targetHost: facts.target_host,
    };
    const { connectorId, targetHost, provider } = chooseConnector(catalogue, question, actionTypes);
    facts.connector_id = connectorId;
    facts.target_host = targetHost;
    const action = request['action'];
    if (!isJsonObject(action) || action['target_path'] !== undefined) return [];
    const usual = usualPath(connectorId === GENERIC_HTTP ? undefined : provider, facts.action_type, facts.params);
    if ('missing' in usual) return [usual.missing];
    facts.target_path = usual.path;
    return [];
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return (error.details ?? []).map(({ path, message }) => ({ path, message }));
  }
}

/** An ActionRequest by the names of fields. */
function fieldsOf(request: Members): Members {
  const { workload_id, action, ...rest } = request;
  const { headers, params = {}, target: _target, ...members } = isJsonObject(action) ? action : {};
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !NOT_READ.has(name))),
    'workload.id': workload_id,
    action: { ...members, params, headers_present: isJsonObject(headers) ? Object.keys(headers) : [] },
  };
}

type Estimated = ReturnType<CallMeaning['estimateFor']>;
const NOTHING: Estimated = { tokens_in: 0, tokens_out_max: 0, cost_pico: 0n, reserve_pico: 0n };

/**
 * As the gateway estimates before it asks policy (specification, "Cost estimation"); overrides of the request count.
 */
function estimateOf(facts: Facts, stated: StatedEstimate, catalogue: Catalogue, cachedRates: boolean): Estimated {
  const provider = catalogue.providerForHost(facts.target_host);
  if (provider === undefined || facts.action_type === 'http.request') return NOTHING;
  const [path = ''] = facts.target_path.split('?', 1);
  const operation = catalogue.operation(provider, facts.action_method, path);
  const planned = operation.plan === true;
  if (facts.reading.hidesBody) return { ...NOTHING, planned };
  const model = facts.params['model'];
  try {
    const priceOf = (name: string | undefined) => {
      const listed = catalogue.price(provider.id, name, facts.time);
      return planned ? planPrice(listed) : listed;
    };
    const price = priceOf(typeof model === 'string' ? model : undefined);
    const { tokensIn, tokensOutMax, costPico, reservePico } = estimateCall({
      params: facts.params,
      dialect: operation.dialect,
      overrides: stated,
      price,
      named: namedModels(operation, facts.params),
      priceOf,
      cachedRates,
    });
    return {
      tokens_in: tokensIn,
      tokens_out_max: tokensOutMax,
      cost_pico: costPico,
      reserve_pico: reservePico,
      planned: price.plan === true,
    };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return NOTHING;
  }
}
