import { GatewayError } from '../../base/lib/gateway-error.ts';
import { holdsOwnToken } from '../../base/lib/own-tokens.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { ACTION_REQUEST_SCHEMA, type ActionRequest } from '../../base/model/action-request.ts';
import { readAiBody } from '../../inbound/normalise/body.ts';
import { AmbiguousActionRequest, type DirectRequest, parseActionRequest } from '../../inbound/normalise/direct.ts';
import { MAX_TEXT } from '../../inbound/normalise/envelope-rules.ts';
import type { Arrived, Claims, Content, Intake, Parts, ReceivedAction, SocketCall, Target } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { inUsualSpelling } from '../parts/with-bytes.ts';

const NO_BYTES = new Uint8Array(0);
const NO_PARAMS = {};

/** On the proxied doors policy sees what the provider will read from the body, the path or the form (decision 3.19). */
export const normalise = defineStage({
  name: 'normalise',
  reads: ['arrival', 'claims', 'target', 'intake', 'received'],
  makes: ['action', 'content'],
  run({ arrival, claims, target, intake, received }) {
    const { operation, path } = target;
    const { rawHeaders: headers } = arrival.head;
    if (target.actionType === 'http.request' || operation === undefined) return bodiless(claims, target, headers);
    const plain = received.plain ?? NO_BYTES;
    const body = readAiBody({
      operation,
      contentType: arrival.head.headers['content-type'],
      bytes: plain,
      path,
      ...(received.form ? { form: received.form, partial: intake.upload !== undefined } : {}),
    });
    intake.held?.made(body.size);
    const { params, stream, model } = body;
    const content = { headers, params, stream, model, body, bytes: received.bytes };
    const isOdd = body.bytes !== plain || arrival.head.headers['content-encoding']?.includes(',') === true;
    return { action: actionOf(claims, target, params), content: isOdd ? inUsualSpelling(content, plain, arrival.head, intake) : content };
  },
});

/** A CONNECT is a head alone. */
export const normaliseTunnel = defineStage({
  name: 'normalise',
  reads: ['arrival', 'claims', 'target'],
  makes: ['action', 'content'],
  run: ({ arrival, claims, target }) => bodiless(claims, target, arrival.head.rawHeaders),
});

/** One call on an open WebSocket. */
export const normaliseEvent = defineStage({
  name: 'normalise',
  reads: ['arrival', 'claims', 'target'],
  makes: ['intake', 'action', 'content'],
  run({ arrival, claims, target }) {
    const { operation, body, event, opened } = socketCallOf(arrival);
    const { headers } = opened;
    const intake: Intake = {
      requestBytes: event?.bytes.length ?? 0,
      requestSha256: event && sha256Hex(event.bytes),
      held: undefined,
      streamed: undefined,
      upload: undefined,
    };
    if (body instanceof GatewayError) {
      const content = { headers, params: NO_PARAMS, stream: true, model: undefined, body: undefined, bytes: undefined };
      return new EndedWith(body, { intake, action: actionOf(claims, target, NO_PARAMS), content });
    }
    const read = readAiBody({ operation, contentType: undefined, bytes: body, path: '' });
    const params = read.stream ? read.params : { ...read.params, stream: true };
    // The calls of a socket stream, each of them.
    const content = { headers, params, stream: true, model: read.model, body: read, bytes: undefined };
    return { intake, action: actionOf(claims, target, params), content };
  },
});

/** The envelope of a structured call says everything: who calls, where to, and what. */
export const openEnvelope = defineStage({
  name: 'open envelope',
  reads: ['arrival', 'intake', 'received'],
  makes: ['claims', 'target', 'action', 'content'],
  run({ arrival, intake, received }, _pipeline, control) {
    try {
      const parsed = parseActionRequest(received.plain ?? NO_BYTES, {
        newRequestId: () => arrival.recordId,
        isAiHost: (host, orgId) => arrival.catalogue.forOrg(orgId).providerForHost(host) !== undefined,
      });
      control.drop('received');
      intake.held?.made(parsed.size);
      return partsOf(parsed, arrival);
    } catch (error) {
      // It is refused, but with a record, and a record says who asked for what.
      if (error instanceof AmbiguousActionRequest) return new EndedWith(error, partsOf(error.reading, arrival));
      throw error;
    }
  },
});

function bodiless(claims: Claims, target: Target, headers: readonly string[]): { action: ReceivedAction; content: Content } {
  const content = { headers, params: NO_PARAMS, stream: false, model: undefined, body: undefined, bytes: undefined };
  return { action: actionOf(claims, target, NO_PARAMS), content };
}

/** The ActionRequest that a proxied call amounts to (specification, "ActionRequest"). */
function actionOf(claims: Claims, target: Target, params: Readonly<Record<string, unknown>>): ReceivedAction {
  const { requestId, orgId, workloadId, callerId, attribution, delegationId } = claims;
  const { actionType: type, method, host, path } = target;
  const request: ActionRequest = {
    schema: ACTION_REQUEST_SCHEMA,
    request_id: requestId,
    org_id: orgId,
    workload_id: workloadId,
    attribution,
    action: { type, method, target_host: host, target_path: path, params },
    ...(callerId === undefined ? {} : { caller_id: callerId }),
    ...(delegationId === undefined ? {} : { delegation_id: delegationId }),
  };
  return { request, isEnvelope: false };
}

function socketCallOf({ socketCall }: Arrived): SocketCall {
  if (socketCall === undefined) throw new GatewayError('internal', 'A call on a socket without its socket.');
  return socketCall;
}

function partsOf({ request, port, tls }: DirectRequest, { catalogue }: Arrived): Pick<Parts, 'claims' | 'target' | 'action' | 'content'> {
  const { action } = request;
  const model = action.params['model'];
  return {
    claims: {
      requestId: request.request_id,
      orgId: request.org_id,
      catalogue: catalogue.forOrg(request.org_id),
      workloadId: request.workload_id,
      callerId: request.caller_id,
      attribution: request.attribution,
      delegationId: request.delegation_id,
      idempotencyKey: request.idempotency_key,
      identity: undefined,
      apiKey: undefined,
    },
    target: {
      method: action.method,
      host: action.target_host,
      port,
      tls,
      path: action.target_path ?? '',
      provider: undefined,
      operation: undefined,
      actionType: action.type,
      opensSocket: false,
      isCall: true,
    },
    action: { request, isEnvelope: true },
    content: {
      headers: Object.entries(action.headers ?? {}).flat(),
      params: action.params,
      stream: action.params['stream'] === true,
      // What is no name of a model is not recorded as one; where it would be sent it is refused.
      model: typeof model === 'string' && model.length <= MAX_TEXT && !holdsOwnToken(model) ? model : undefined,
      body: undefined,
      bytes: undefined,
    },
  };
}
