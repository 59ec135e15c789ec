import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { readAiBody } from '../../inbound/normalise/body.ts';
import { AmbiguousActionRequest, type DirectRequest, parseActionRequest } from '../../inbound/normalise/direct.ts';
import { MAX_TEXT } from '../../inbound/normalise/envelope-rules.ts';
import type { Exchange, SocketCall } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';

const NOTHING = new Uint8Array(0);

/** Makes one ActionRequest of what was read, whichever door it came by. */
export const normalise: Stage = {
  name: 'normalise',
  run(exchange, pipeline) {
    if (exchange.socketCall) normaliseSocketCall(exchange, exchange.socketCall);
    else if (exchange.door === 'direct') normaliseDirect(exchange, pipeline);
    else if (exchange.actionType !== 'http.request') normaliseProxied(exchange);
    return undefined;
  },
};

/** On the proxied doors policy sees what the provider will read from the body, the path or the form (decision 3.19). */
function normaliseProxied(exchange: Exchange): void {
  const { operation, head } = exchange;
  if (!operation) return;
  const body = readAiBody({
    operation,
    contentType: head.headers['content-type'],
    bytes: exchange.plain ?? NOTHING,
    path: exchange.path,
    ...(exchange.form ? { form: exchange.form, partial: exchange.upload !== undefined } : {}),
  });
  exchange.aiBody = body;
  exchange.params = body.params;
  exchange.stream = body.stream;
  exchange.sendModel = body.model;
  exchange.sendBytes = exchange.bytes;
  exchange.parsedBytes = body.size;
}

/** The calls of a socket go where its handshake went, and each of them streams. */
function normaliseSocketCall(exchange: Exchange, { opened, operation, body, event }: SocketCall): void {
  exchange.host = opened.host;
  exchange.port = opened.port;
  exchange.tls = opened.tls;
  exchange.path = opened.path;
  exchange.headers = opened.headers;
  exchange.provider = opened.provider;
  exchange.operation = operation;
  exchange.actionType = operation.actionType;
  exchange.stream = true;
  exchange.requestBytes = event?.bytes.length ?? 0;
  exchange.requestSha256 = event && sha256Hex(event.bytes);
  if (body instanceof GatewayError) throw body;
  const read = readAiBody({ operation, contentType: undefined, bytes: body, path: '' });
  exchange.aiBody = read;
  exchange.params = read.stream ? read.params : { ...read.params, stream: true };
  exchange.sendModel = read.model;
}

function normaliseDirect(exchange: Exchange, pipeline: Pipeline): void {
  const { catalogue } = pipeline;
  try {
    const parsed = parseActionRequest(exchange.plain ?? NOTHING, {
      newRequestId: () => exchange.recordId,
      isAiHost: (host) => catalogue.providerForHost(host) !== undefined,
    });
    take(exchange, parsed);
    exchange.bytes = undefined;
    exchange.plain = undefined;
    exchange.parsedBytes = parsed.size;
  } catch (error) {
    // It is refused, but with a record, and a record says who asked for what.
    if (error instanceof AmbiguousActionRequest) take(exchange, error.reading);
    throw error;
  }
}

function take(exchange: Exchange, { request, port, tls }: DirectRequest): void {
  const { action } = request;
  exchange.request = request;
  exchange.requestId = request.request_id;
  exchange.orgId = request.org_id;
  exchange.workloadId = request.workload_id;
  exchange.callerId = request.caller_id;
  exchange.attribution = request.attribution;
  exchange.actionType = action.type;
  exchange.method = action.method;
  exchange.host = action.target_host;
  exchange.port = port;
  exchange.tls = tls;
  exchange.path = action.target_path ?? '';
  exchange.params = action.params;
  exchange.stream = action.params['stream'] === true;
  exchange.headers = Object.entries(action.headers ?? {}).flat();
  const model = action.params['model'];
  // What is no name of a model is not recorded as one; where it would be sent it is refused.
  exchange.sendModel = typeof model === 'string' && model.length <= MAX_TEXT ? model : undefined;
}
