import { GENERIC_HTTP, registeredConnectorId } from '../../base/catalogue/connector-id.ts';
import { allNamed, type NamedModels } from '../../base/catalogue/named-models.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { type AskedByRule, askedBy } from '../../decide/policy/approval-standing.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { isAnotherChoice, recheck } from '../../decide/policy/recheck.ts';
import type { MatchedRule, Verdict } from '../../decide/policy/verdict.ts';
import { cannotWait, isBound } from '../parts/action-hash.ts';
import { CallFacts } from '../parts/call-facts.ts';
import type { Pipeline, PipelineSettings } from '../parts/call-services.ts';
import type { CallMutation, CallRoute, Intake, Parts } from '../parts/parts.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { type Control, defineStage, EndedWith } from '../parts/stage.ts';
import { holdCaller, refusalFrom } from '../parts/verdict-refusal.ts';
import { outOfScope } from '../route/delegation-scope.ts';
import { mutate } from '../route/mutate.ts';
import { type Connected, connect, settleRoute } from '../route/settle-route.ts';

const READ = ['arrival', 'claims', 'target', 'action', 'offer', 'asked', 'facts', 'judgement', 'approving', 'attribution'] as const;
type Asked = Pick<Parts, (typeof READ)[number]> & {
  readonly delegated?: Parts['delegated'];
  readonly intake?: Intake | undefined;
};
type Settled = Pick<Parts, 'mutation' | 'mutated' | 'route'>;

/** A call after the mutations of policy. */
interface Read extends Asked {
  readonly chosen: CallRoute;
  readonly mutation: CallMutation;
  readonly mutated: Parts['mutated'];
}

/**
 * Settles the request: takes the connector and the credential that policy selected, applies its mutations, and asks the
 * layers about connector, credential and host once more where these are others by now (decision 5.4). A rule that asks
 * a person about the final choice goes on with the others that do. What is sent is in the scope of a delegation, too.
 */
export const settle = defineStage({
  name: 'settle',
  reads: READ,
  sees: ['delegated', 'intake'],
  makes: ['mutation', 'mutated', 'route'],
  run(parts, pipeline, control) {
    const chosen = choose(parts, pipeline);
    if (chosen instanceof Refusal) return chosen;
    // As far as it has come, for the record of a call that ends here.
    let known: Partial<Settled> = { route: chosen };
    try {
      const changed = mutate(parts, chosen);
      if (changed instanceof Refusal) return new EndedWith(changed, known);
      const { mutation, mutated } = changed;
      if (chosen === parts.offer && mutation.changes.length === 0 && !hidesProvider(chosen))
        return inScope(parts, { mutation, mutated, route: chosen });
      const read = { ...parts, chosen, mutation, mutated };
      const hasChanged = mutation.changes.length > 0 || isOther(parts, chosen);
      known = { mutation, mutated, route: hasChanged ? { ...chosen, ...mutation.call } : chosen };
      return checkAgain(read, hasChanged ? settleAnew(read, pipeline) : chosen, pipeline, control);
    } catch (error) {
      if (error instanceof GatewayError) return new EndedWith(error, known);
      throw error;
    }
  },
});

/** With the connector and the credential that policy selected (decisions 5.4, 6.6, 6.9, 6.10). */
function choose(parts: Asked, pipeline: Pipeline): CallRoute | Refusal {
  const { offer, asked, judgement } = parts;
  const call = selected(parts, pipeline.settings);
  if (call instanceof Refusal) return call;
  const { select_credential: select } = judgement.verdict.effects;
  if (call === offer && select === undefined) return offer;
  return settleRoute({ ...parts, call, content: asked, select, active: judgement.active }, pipeline);
}

/** Looks at what was selected or mutated, which is not what policy first saw. */
function checkAgain(parts: Read, route: CallRoute, pipeline: Pipeline, control: Control): Maybe<Settled | EndedWith<keyof Settled>> {
  const { mutation, mutated } = parts;
  if (namesUnasked(parts, route)) return new EndedWith(unasked(), { mutation, mutated, route });
  if (!isOther(parts, route) && !hidesProvider(route)) return inScope(parts, { mutation, mutated, route });
  const { refused, choiceAsks } = finalLook(parts, route, pipeline.approvals !== undefined);
  const settled = { mutation: choiceAsks === undefined ? mutation : { ...mutation, choiceAsks }, mutated, route };
  if (refused === undefined) return inScope(parts, settled);
  return when(refusalFrom(refused, parts.arrival.line, parts.claims, pipeline.allowance), (refusal) => {
    holdCaller(refusal, parts, pipeline, control);
    return new EndedWith(refusal, settled);
  });
}

function inScope({ delegated }: Asked, settled: Settled): Settled | EndedWith<keyof Settled> {
  const refusal = delegated && outOfScope(delegated, settled.route, settled.mutated);
  return refusal ? new EndedWith(refusal, settled) : settled;
}

/** With `select_connector` of a matching rule; a hint of the caller wins over it (decision 5.4). */
function selected({ arrival, claims, action, offer, judgement }: Asked, settings: PipelineSettings): CallRoute | Connected | Refusal {
  const selectConnector = judgement.verdict.effects.select_connector;
  if (selectConnector === undefined || action.request.connector_hint !== undefined || selectConnector === offer.connectorId) return offer;
  if (registeredConnectorId(claims.catalogue, selectConnector) === undefined)
    return deny('connector_not_available', `Policy selected ${selectConnector}, which this org does not have, or has switched off.`);
  try {
    return connect({ arrival, claims, action, call: offer, by: { selectConnector }, meantFor: offer.meantFor }, settings);
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error;
    return deny(
      'connector_without_host',
      `Policy selected ${selectConnector}, which has a host per customer, and the call names none of them.`,
    );
  }
}

interface FinalLook {
  readonly refused: Verdict | undefined;
  readonly choiceAsks: readonly AskedByRule[] | undefined;
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
function namesUnasked({ offer, facts }: Asked, { named, method, host, path }: CallRoute): boolean {
  if (named === undefined || (method === offer.method && host === offer.host && path === offer.path)) return false;
  if (named.hidden) return !facts.reading.hidesModel;
  const asked = allNamed(facts.params['model'], offer.named ?? NONE_NAMED);
  return allNamed(undefined, named).some((model) => !asked.includes(model));
}

const NONE_NAMED: NamedModels = { alternatives: [], inner: [], hidden: false };

function unasked(): Refusal {
  return deny('mutation_not_applicable', 'Policy sends this call where its body names further models, which no rule was asked about.');
}

/**
 * A rule about a provider holds for all calls to its hosts: `generic_http` is no other name under which one may be
 * reached.
 */
function hidesProvider({ connectorId, provider }: CallRoute): boolean {
  return connectorId === GENERIC_HTTP && provider !== undefined;
}

function asItsProvider(parts: Read, route: CallRoute, look: Look): Verdict | undefined {
  const { provider } = route;
  return provider !== undefined && hidesProvider(route) ? askAgain(parts, route, { ...look, connectorId: provider.id }) : undefined;
}

function isOther({ facts }: Asked, { actionType, connectorId, host, credentialId }: CallRoute): boolean {
  return isAnotherChoice(facts, { action_type: actionType, connector_id: connectorId, target_host: host, credential_id: credentialId });
}
