import { HTTP_REQUEST } from '../../base/catalogue/operations.ts';
import type { Operation } from '../../base/catalogue/types.ts';
import { applyMutations } from '../../inbound/normalise/mutate.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import type { Exchange } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Applies the mutations of the verdict to what is sent; a downgrade that changes nothing is an allow (policy.md, "Merging effects"). */
export const mutate: Stage = {
  name: 'mutate',
  run(exchange, pipeline) {
    const mutations = (exchange.verdict?.effects.mutations ?? []).filter(({ key }) => applies(exchange, key));
    if (mutations.length === 0) {
      if (exchange.decision === 'downgrade') exchange.decision = 'allow';
      return undefined;
    }
    const { catalogue } = pipeline;
    const operationFor = (method: string, host: string, path: string): Operation => {
      const provider = catalogue.providerForHost(host);
      return provider ? catalogue.operation(provider, method, pathOnly(path), exchange.opensSocket) : HTTP_REQUEST;
    };
    const mutated = applyMutations(
      { body: exchange.aiBody, method: exchange.method, host: exchange.host, path: exchange.path, headers: exchange.headers },
      mutations,
      {
        isAiHost: (host) => catalogue.providerForHost(host) !== undefined,
        operationFor,
      },
    );
    if (mutated.unapplied.length > 0) {
      return deny(
        'mutation_not_applicable',
        `Policy changes ${mutated.unapplied.join(', ')}, but this call has no place where that is certain to hold.`,
      );
    }
    if (mutated.changed.length === 0) {
      if (exchange.decision === 'downgrade') exchange.decision = 'allow';
      return undefined;
    }
    exchange.changes = mutated.changed;
    const moved = mutated.host !== exchange.host || mutated.path !== exchange.path || mutated.method !== exchange.method;
    const operation = moved ? operationFor(mutated.method, mutated.host, mutated.path) : exchange.operation;
    if (operation && operation !== exchange.operation && !takeOperation(exchange, operation)) {
      return deny('mutation_not_applicable', 'Policy makes this an AI call, but its body was not parsed.');
    }
    take(exchange, mutated, pipeline);
    return undefined;
  },
};

/** A handshake has no params but the model that its path may name; those of the calls are settled with each call. */
function applies({ opensSocket, sendModel }: Exchange, key: string): boolean {
  return !opensSocket || !key.startsWith('action.params.') || (key === 'action.params.model' && sendModel !== undefined);
}

/** What the call means now, so that policy is asked about that (decision 5.4). False: it became an AI call whose body nobody has seen (decision 3.19). */
function takeOperation(exchange: Exchange, operation: Operation): boolean {
  if (operation.actionType !== 'http.request' && !exchange.aiBody && exchange.streamed) return false;
  // A type of the caller's own on the structured API stays.
  if (exchange.actionType === (exchange.operation?.actionType ?? 'http.request')) exchange.actionType = operation.actionType;
  exchange.operation = operation;
  return true;
}

/** A body that changed is sent as it is now, not compressed again (decision 3.20). */
export function takeBytes(exchange: Exchange, bytes: Uint8Array): void {
  if (exchange.upload) exchange.upload.replaceHead(bytes);
  else exchange.sendBytes = bytes.length === 0 ? undefined : bytes;
  const { headers } = exchange;
  exchange.headers = headers.filter((_, at) => headers[at - (at % 2)]?.toLowerCase() !== 'content-encoding');
}

function take(exchange: Exchange, mutated: ReturnType<typeof applyMutations>, { catalogue }: Pipeline): void {
  const modelBefore = exchange.sendModel;
  const moved = mutated.host !== exchange.host;
  exchange.method = mutated.method;
  exchange.path = mutated.path;
  exchange.headers = mutated.headers;
  if (moved) {
    exchange.host = mutated.host;
    exchange.port = 443;
    exchange.tls = true;
    exchange.provider = catalogue.providerForHost(mutated.host);
  }
  if (mutated.body && mutated.body !== exchange.aiBody) {
    if (mutated.body.bytes !== exchange.aiBody?.bytes) takeBytes(exchange, mutated.body.bytes);
    exchange.aiBody = mutated.body;
    exchange.params = mutated.body.params;
    exchange.stream = mutated.body.stream;
    exchange.sendModel = mutated.body.model;
  }
  if (exchange.sendModel !== modelBefore) {
    exchange.originalModel = modelBefore;
    exchange.substitutedModel = exchange.sendModel;
  }
  exchange.changedByPolicy = true;
}
