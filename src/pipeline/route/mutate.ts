import { usualOrigin } from '../../base/catalogue/custom-row.ts';
import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import type { Catalogue, Operation } from '../../base/catalogue/types.ts';
import { applyMutations } from '../../inbound/normalise/apply-mutations.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { directHeaders } from '../../outbound/connectors/auth.ts';
import type { CallMutation, CallRoute, Content, Intake, Parts, WireCall } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import { withBytes } from '../parts/with-bytes.ts';
import { byName } from './outbound-headers.ts';

type Mutated = ReturnType<typeof applyMutations>;
type Changed = Pick<Parts, 'mutation' | 'mutated'>;
type Read = Pick<Parts, 'claims' | 'target' | 'action' | 'asked' | 'judgement'> & { readonly intake?: Intake | undefined };

/**
 * Applies the mutations of the verdict to what is sent; a downgrade that changes nothing is an allow (policy.md,
 * "Merging effects").
 */
export function mutate({ claims, target, action, asked, judgement, intake }: Read, chosen: CallRoute): Changed | Refusal {
  const { catalogue } = claims;
  const { opensSocket } = target;
  const content = action.isEnvelope ? withDirectHeaders(asked, chosen, action.request.idempotency_key) : asked;
  const mutations = (judgement.verdict.effects.mutations ?? []).filter(({ key }) => applies(key, opensSocket, chosen.model));
  if (mutations.length === 0) return unchanged(chosen, content);
  const operationFor = operationsOf(catalogue, opensSocket);
  const { method, host, path } = chosen;
  const mutated = applyMutations({ body: content.body, method, host, path, headers: content.headers }, mutations, {
    isAiHost: (name) => catalogue.providerForHost(name) !== undefined,
    operationFor,
  });
  if (mutated.unapplied.length > 0) {
    return deny(
      'mutation_not_applicable',
      `Policy changes ${mutated.unapplied.join(', ')}, but this call has no place where that is certain to hold.`,
    );
  }
  if (mutated.changed.length === 0) return unchanged(chosen, content);
  const moved = mutated.host !== host || mutated.path !== path || mutated.method !== method;
  const operation = moved ? operationFor(mutated.method, mutated.host, mutated.path) : chosen.operation;
  if (operation !== chosen.operation && isUnseen(operation, content, intake)) {
    return deny('mutation_not_applicable', 'Policy makes this an AI call, but its body was not parsed.');
  }
  return changed({ chosen, content, mutated, operation, decision: judgement.verdict.decision }, catalogue, intake);
}

/** What the wire format of a structured call needs beyond the headers that the caller set. */
function withDirectHeaders(content: Content, { provider, operation }: CallRoute, idempotencyKey: string | undefined): Content {
  const set = byName(content.headers);
  const added = directHeaders({
    provider,
    dialect: operation?.dialect,
    hasBody: content.bytes !== undefined,
    idempotencyKey,
    callerSet: (name) => Object.hasOwn(set, name),
  });
  return added.length === 0 ? content : { ...content, headers: [...content.headers, ...added] };
}

/** A handshake has no params but the model that its path may name; those of the calls are settled with each call. */
function applies(key: string, opensSocket: boolean, model: string | undefined): boolean {
  return !opensSocket || !key.startsWith('action.params.') || (key === 'action.params.model' && model !== undefined);
}

function operationsOf(catalogue: Catalogue, opensSocket: boolean): (method: string, host: string, path: string) => Operation {
  return (method, host, path) => {
    const provider = catalogue.providerForHost(host);
    return provider ? catalogue.operation(provider, method, pathOnly(path), opensSocket) : HTTP_REQUEST;
  };
}

function unchanged(call: CallRoute, content: Content): Changed {
  const mutation: CallMutation = {
    decision: 'allow',
    changes: [],
    originalModel: undefined,
    substitutedModel: undefined,
    call,
    choiceAsks: undefined,
  };
  return { mutation, mutated: content };
}

/** It became an AI call whose body nobody has seen (decision 3.19). */
function isUnseen(operation: Operation | undefined, { body }: Content, intake: Intake | undefined): boolean {
  return operation !== undefined && operation.actionType !== 'http.request' && !body && intake?.streamed !== undefined;
}

interface Change {
  readonly chosen: CallRoute;
  readonly content: Content;
  readonly mutated: Mutated;
  readonly operation: Operation | undefined;
  readonly decision: string;
}

function changed({ chosen, content, mutated, operation, decision }: Change, catalogue: Catalogue, intake: Intake | undefined): Changed {
  const { body } = mutated;
  const rewritten = body !== undefined && body !== content.body ? body : undefined;
  const model = rewritten ? rewritten.model : chosen.model;
  const moved = mutated.host !== chosen.host;
  const call: WireCall = {
    ...chosen,
    method: mutated.method,
    path: mutated.path,
    ...(moved ? placeOf(catalogue, mutated.host) : {}),
    operation,
    actionType: actionTypeOf(chosen, operation),
    stream: rewritten ? rewritten.stream : chosen.stream,
    model,
  };
  const isOther = model !== chosen.model;
  return {
    mutation: {
      decision: decision === 'downgrade' ? 'downgrade' : 'allow',
      changes: mutated.changed,
      originalModel: isOther ? chosen.model : undefined,
      substitutedModel: isOther ? model : undefined,
      call,
      choiceAsks: undefined,
    },
    mutated: rewrittenContent({ ...content, headers: mutated.headers }, rewritten, intake),
  };
}

function placeOf(catalogue: Catalogue, host: string): Pick<WireCall, 'host' | 'port' | 'tls' | 'provider'> {
  const provider = catalogue.providerForHost(host);
  const { port, tls } = usualOrigin(provider);
  return { host, port, tls, provider };
}

/**
 * What the call means now, so that policy is asked about that (decision 5.4). A type of the caller's own on the
 * structured API stays.
 */
function actionTypeOf(chosen: CallRoute, operation: Operation | undefined): string {
  if (operation === undefined || operation === chosen.operation) return chosen.actionType;
  return chosen.actionType === (chosen.operation?.actionType ?? 'http.request') ? operation.actionType : chosen.actionType;
}

function rewrittenContent(content: Content, body: Content['body'], intake: Intake | undefined): Content {
  if (body === undefined) return content;
  const { params, stream, model, bytes } = body;
  const read = { ...content, body, params, stream, model };
  return bytes === content.body?.bytes ? read : withBytes(read, bytes, intake);
}
