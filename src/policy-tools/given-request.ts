import type { Catalogue } from '../base/catalogue/types.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { ACTION_REQUEST_SCHEMA } from '../base/model/action-request.ts';
import type { Facts } from '../decide/policy/facts.ts';
import { isRecord } from '../decide/policy/fields.ts';
import { describedCall, type FactMistake, giveFacts, settleConnector } from '../decide/policy/given-facts.ts';
import { estimate } from '../decide/pricing/estimate.ts';
import { route } from '../decide/routing/route.ts';

export interface GivenRequest {
  readonly facts: Facts;
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
  return given['schema'] === ACTION_REQUEST_SCHEMA || ('workload_id' in given && isRecord(given['action']));
}

/** The facts of a request that is described by field names, as in test cases, or given as an ActionRequest; connector and estimate as the gateway finds them. */
export function factsOfRequest(given: Members, catalogue: Catalogue): GivenRequest {
  const facts = describedCall();
  const direct = isActionRequest(given);
  const mistakes = giveFacts(facts, direct ? fieldsOf(given) : given);
  settleConnector(facts, (targetHost) => route(catalogue, { actionType: '', targetHost }).connectorId);
  if (direct) estimateOf(facts, given, catalogue);
  return { facts, mistakes };
}

/** An ActionRequest by the names of fields. */
function fieldsOf(request: Members): Members {
  const { workload_id, action, ...rest } = request;
  const { headers, params = {}, target: _target, ...members } = isRecord(action) ? action : {};
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !NOT_READ.has(name))),
    'workload.id': workload_id,
    action: { ...members, params, headers_present: isRecord(headers) ? Object.keys(headers) : [] },
  };
}

/** As the gateway estimates before it asks policy (specification, "Cost estimation"); overrides of the request count. */
function estimateOf(facts: Facts, request: Members, catalogue: Catalogue): void {
  const provider = catalogue.providerForHost(facts.target_host);
  if (provider === undefined) return;
  const [path = ''] = facts.target_path.split('?', 1);
  const { dialect } = catalogue.operation(provider, facts.action_method, path);
  const model = facts.params['model'];
  const context = isRecord(request['context']) ? request['context'] : {};
  const overridden = isRecord(context['estimates']) ? Object.keys(context['estimates']) : [];
  const overrides = {
    ...(overridden.includes('tokens_in') ? { tokens_in: facts.estimates.tokens_in } : {}),
    ...(overridden.includes('tokens_out_max') ? { tokens_out_max: facts.estimates.tokens_out_max } : {}),
  };
  try {
    const price = catalogue.price(provider.id, typeof model === 'string' ? model : undefined);
    const { tokensIn, tokensOutMax, costPico } = estimate(facts.params, dialect, overrides, price);
    facts.estimates = { tokens_in: tokensIn, tokens_out_max: tokensOutMax, cost_pico: costPico };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
  }
}
