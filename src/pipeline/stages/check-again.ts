import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { allNamed, type NamedModels } from '../../base/catalogue/named-models.ts';
import { when } from '../../base/lib/maybe.ts';
import { askedBy } from '../../decide/policy/asking-rules.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { isAnotherChoice, recheck } from '../../decide/policy/recheck.ts';
import type { MatchedRule, Verdict } from '../../decide/policy/verdict.ts';
import { CallFacts } from '../parts/call-facts.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { holdCaller } from '../parts/hold-caller.ts';
import { cannotWait, isBound } from '../parts/is-bound.ts';
import type { CallRoute, Intake, Parts } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { refusalFrom } from '../parts/verdict-refusal.ts';
import { type Connected, connect } from '../route/call-connector.ts';
import { settleRoute } from '../route/settle-route.ts';

const READ = [
  'arrival',
  'claims',
  'target',
  'action',
  'offer',
  'asked',
  'facts',
  'judgement',
  'approving',
  'attribution',
  'chosen',
  'mutation',
  'mutated',
] as const;
type Read = Pick<Parts, (typeof READ)[number]> & { readonly delegated?: Parts['delegated']; readonly intake?: Intake | undefined };

/**
 * What was selected or mutated is not what policy first saw: connector, operation, price and estimate are settled anew, and where that made it another connector,
 * credential or host, the layers about these are asked once more about the final choice (decision 5.4). A rule that asks a person about that goes on with the others that do.
 */
export const checkAgain = defineStage({
  name: 'check again',
  reads: READ,
  sees: ['delegated', 'intake'],
  makes: ['route', 'choiceAsks'],
  run(parts, pipeline, control) {
    const { mutation, chosen } = parts;
    const hasChanged = mutation.changes.length > 0 || isOther(parts, chosen);
    const route = hasChanged ? settleAnew(parts, pipeline) : chosen;
    if (namesUnasked(parts, route)) return new EndedWith(unasked(), { route, choiceAsks: undefined });
    if (!isOther(parts, route) && !hidesProvider(route)) return { route, choiceAsks: undefined };
    const { refused, choiceAsks } = finalLook(parts, route, pipeline.approvals !== undefined);
    if (refused === undefined) return { route, choiceAsks };
    return when(refusalFrom(refused, parts.arrival.line, parts.claims, pipeline.allowance), (refusal) => {
      holdCaller(refusal, parts, pipeline, control);
      return new EndedWith(refusal, { route, choiceAsks });
    });
  },
});

interface FinalLook extends Pick<Parts, 'choiceAsks'> {
  readonly refused: Verdict | undefined;
}

/** What a person may let pass is refused all the same where something else would refuse it then. */
function finalLook(parts: Read, route: CallRoute, mayWait: boolean): FinalLook {
  const { facts, judgement } = parts;
  const { policy } = judgement.active;
  const matched: MatchedRule[] = [];
  const refused = lookAgain(parts, route, facts.approved, matched);
  const asks = refused?.decision === 'require_approval' && mayWait;
  const waits = asks && isBound(parts, facts);
  const anyway = waits ? lookAgain(parts, route, true, matched) : asks ? cannotWait(refused) : refused;
  return { refused: anyway, choiceAsks: matched.length === 0 ? undefined : askedBy(policy, matched) };
}

function lookAgain(parts: Read, route: CallRoute, approved: Facts['approved'], matched: MatchedRule[]): Verdict | undefined {
  const look = { approved, matched };
  return (isOther(parts, route) ? askAgain(parts, route, look) : undefined) ?? asItsProvider(parts, route, look);
}

/** By the host alone, where that is another one by now. */
function settleAnew(parts: Read, pipeline: Pipeline): CallRoute {
  const { arrival, claims, action, facts, judgement, chosen, mutation, mutated } = parts;
  const { connectorId, candidates, meantFor } = chosen;
  const call: Connected =
    facts.target_host === mutation.call.host
      ? { ...mutation.call, connectorId, candidates, meantFor }
      : connect({ arrival, claims, action, call: mutation.call, by: {}, meantFor }, pipeline.settings);
  const { select_credential: select } = judgement.verdict.effects;
  return settleRoute({ ...parts, call, content: mutated, select, active: judgement.active }, pipeline);
}

interface Look {
  readonly approved: Facts['approved'];
  /** Takes the rules that it comes to. */
  readonly matched: MatchedRule[];
  /** Another than the one that takes the call, to ask about that. */
  readonly connectorId?: string;
}

function askAgain(
  { judgement, facts, approving, ...parts }: Read,
  route: CallRoute,
  { approved, matched, connectorId }: Look,
): Verdict | undefined {
  const asked = {
    ...parts,
    route,
    content: parts.mutated,
    risk: facts.risk,
    approved,
    ...(connectorId === undefined ? {} : { connectorId }),
  };
  const choice = { before: facts, verdict: approving.onceGiven ?? judgement.verdict };
  return recheck(judgement.active.policy, new CallFacts(asked), choice, matched);
}

/** Whether the call names a model only since it goes elsewhere than policy was asked about: no rule knows of it. */
function namesUnasked({ offer, facts }: Read, { named, method, host, path }: CallRoute): boolean {
  if (named === undefined || (method === offer.method && host === offer.host && path === offer.path)) return false;
  if (named.hidden) return !facts.reading.hidesModel;
  const asked = allNamed(facts.params['model'], offer.named ?? NONE_NAMED);
  return allNamed(undefined, named).some((model) => !asked.includes(model));
}

const NONE_NAMED: NamedModels = { alternatives: [], inner: [], hidden: false };

function unasked(): Refusal {
  return deny('mutation_not_applicable', 'Policy sends this call where its body names further models, which no rule was asked about.');
}

/** A rule about a provider holds for all calls to its hosts: `generic_http` is no other name under which one may be reached. */
function hidesProvider({ connectorId, provider }: CallRoute): boolean {
  return connectorId === GENERIC_HTTP && provider !== undefined;
}

function asItsProvider(parts: Read, route: CallRoute, look: Look): Verdict | undefined {
  const { provider } = route;
  return provider !== undefined && hidesProvider(route) ? askAgain(parts, route, { ...look, connectorId: provider.id }) : undefined;
}

function isOther({ facts }: Read, { actionType, connectorId, host, credentialId }: CallRoute): boolean {
  return isAnotherChoice(facts, { action_type: actionType, connector_id: connectorId, target_host: host, credential_id: credentialId });
}
