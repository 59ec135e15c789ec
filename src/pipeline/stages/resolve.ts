import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ActionRequest } from '../../base/model/action-request.ts';
import { directCall } from '../../inbound/normalise/direct-call.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import type { Content, ReceivedAction, Target, WireCall } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { outOfScope } from '../route/delegation-scope.ts';
import { type Connected, type ConnectorQuestion, connect, settleRoute } from '../route/settle-route.ts';

/**
 * Which connector, which operation, which credential, which price: what policy will be asked about, where a delegation
 * allows it.
 */
export const resolve = defineStage({
  name: 'resolve',
  reads: ['arrival', 'claims', 'snapshot', 'target', 'action', 'content'],
  sees: ['intake', 'delegated'],
  makes: ['offer', 'asked'],
  run({ arrival, claims, snapshot, target, action, content, intake, delegated }, pipeline) {
    const question = { arrival, claims, action, call: callOf(target, content), by: byOf(action), meantFor: undefined };
    const connected = connect(question, pipeline.settings);
    // What policy sees first is the automatic choice; whether the call may run without a credential is asked after it
    // (decision 5.4).
    const { active } = snapshot;
    const shaped = action.isEnvelope ? shape(connected, content, action.request) : { call: connected, content };
    const { call, content: asked } = shaped;
    if (action.isEnvelope) {
      intake?.held?.resize(asked.body?.bytes.length ?? 0);
      intake?.held?.made(asked.body?.size ?? 0);
    }
    const offer = settleRoute({ arrival, claims, target, action, call, content: asked, select: undefined, active }, pipeline);
    const refusal = delegated && outOfScope(delegated, offer, asked);
    return refusal ? new EndedWith(refusal, { offer, asked }) : { offer, asked };
  },
});

function callOf(target: Target, content: Content): WireCall {
  const { method, host, port, tls, path, provider, operation, actionType } = target;
  const { stream, model } = content;
  return { method, host, port, tls, path, provider, operation, actionType, stream, model };
}

function byOf(action: ReceivedAction): ConnectorQuestion['by'] {
  const { connector_hint: connectorHint, action: own } = action.request;
  return action.isEnvelope ? { connectorHint, actionType: own.type } : {};
}

const STANDARD_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);

/** Of a call that names no model the connector says it, so that policy and price see the one that is sent. */
function withDefaultModel(action: ActionRequest['action'], provider: Provider | undefined): ActionRequest['action'] {
  const model = provider?.custom?.defaultModel;
  if (model === undefined || !action.type.startsWith('ai.') || Object.hasOwn(action.params, 'model')) return action;
  return { ...action, params: { model, ...action.params } };
}

/**
 * Gives a structured call its wire form. What the caller says it is must be what its path means, or rules about
 * `action.type` could be walked around.
 */
function shape(call: Connected, content: Content, { action }: ActionRequest): { call: Connected; content: Content } {
  const { provider, operation } = call;
  if (!operation) return { call, content };
  if (provider && operation.known && operation.actionType !== action.type && STANDARD_TYPES.has(action.type)) {
    const message = `is ${operation.actionType} for ${call.method} ${pathOnly(call.path)} of ${provider.id}`;
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details: [{ path: 'action.type', message }] });
  }
  if (call.stream && (call.connectorId === GENERIC_HTTP || !provider?.canStream)) {
    throw new GatewayError('streaming_not_supported', `The connector ${call.connectorId} does not stream on the structured API.`);
  }
  const { path, body } = directCall(withDefaultModel(action, provider), call.path, operation);
  const { params, stream, bytes } = body;
  // Of what nobody understands the caller's own words are not believed either.
  const model = body.model ?? (operation.known ? call.model : undefined);
  // As on the other doors: a POST that nobody describes is an inference, whatever its caller says it is.
  const actionType = !operation.known && STANDARD_TYPES.has(action.type) ? operation.actionType : call.actionType;
  return {
    call: { ...call, path, stream, model, actionType },
    content: { headers: content.headers, params, stream, model, body, bytes: bytes.length === 0 ? undefined : bytes },
  };
}
