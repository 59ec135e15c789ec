import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Arrival } from '../base/model/arrival.ts';
import type { ByteChannel } from '../base/model/channel.ts';
import { resolveTarget } from '../inbound/normalise/target.ts';
import { readAnswerHead } from '../inbound/reply/answer-head.ts';
import { filterRequestHeaders, filterResponseHeaders, via } from '../outbound/net/header-filter.ts';
import type { UpgradeEvents } from '../outbound/net/upstream.ts';
import { sendError } from '../surfaces/http/router.ts';
import { refuseLoop } from './refusals.ts';
import { relay } from './relay.ts';
import type { Pipeline } from './stage.ts';

/**
 * Plain HTTP to a host that is no AI host, with `GW_PROXY_NON_AI=pass`: it goes on as the bytes of a tunnel would (decision 3.8; specification,
 * "Transparent proxy mode" 8): no policy, no record, nothing looked at but its head. Egress guard, header filter and loop check hold all the same. A
 * WebSocket is relayed once the upstream has accepted it, and its refusal is passed on as any answer is (decision 3.12).
 */
export function passPlain(arrival: Arrival, pipeline: Pipeline): void {
  try {
    pass(arrival, pipeline);
  } catch (error) {
    refuse(arrival, pipeline, error);
  }
}

function pass(arrival: Arrival, pipeline: Pipeline): void {
  const { head, body, reply } = arrival;
  const { settings, catalogue, upstream, events } = pipeline;
  refuseLoop(head.rawHeaders, settings.nodeId);
  const target = resolveTarget(head, catalogue);
  events.passed(target.host);
  let resume: () => void = () => undefined;
  const answer: UpgradeEvents = {
    onInfo: (status, rawHeaders) => reply.info(status, rawHeaders),
    onHead(status, rawHeaders, resumeUpstream) {
      resume = resumeUpstream;
      const answered = readAnswerHead(status, rawHeaders, head.method);
      try {
        reply.head(status, answered.headers, answered.contentLength);
      } catch (error) {
        handle.abort();
        refuse(arrival, pipeline, error);
      }
    },
    onData: (chunk) => reply.write(chunk),
    onEnd: (trailers) => reply.end(trailers),
    onError: (error) => refuse(arrival, pipeline, error),
    onUpgrade: (rawHeaders, channel) => joinSockets(arrival, pipeline, rawHeaders, channel),
  };
  const call = {
    authority: { host: target.host, port: target.port },
    tls: target.tls,
    method: head.method,
    path: target.path,
    headers: filterRequestHeaders(head.rawHeaders, { adminToken: settings.adminToken, via: via(settings.nodeId) }),
    body: body.declaredLength === 0 ? undefined : body.stream(),
    ...(body.declaredLength ? { bodyLength: body.declaredLength } : {}),
  };
  const handle = reply.switchProtocols ? upstream.upgrade(call, answer) : upstream.call(call, answer);
  reply.onDrain(() => resume());
  reply.onGone(() => handle.abort());
}

/** The upstream has accepted a WebSocket: so does the gateway, with the same words. */
function joinSockets(arrival: Arrival, pipeline: Pipeline, rawHeaders: readonly string[], upstream: ByteChannel): void {
  const { clock, events } = pipeline;
  const client = accept(arrival, pipeline, rawHeaders);
  if (client === undefined) {
    upstream.reset();
    return;
  }
  events.webSocketOpened('relayed');
  relay(client, upstream, clock, () => events.webSocketClosed('relayed'));
}

function accept(arrival: Arrival, pipeline: Pipeline, rawHeaders: readonly string[]): ByteChannel | undefined {
  const { reply } = arrival;
  try {
    return reply.gone ? undefined : reply.switchProtocols?.(filterResponseHeaders(rawHeaders).headers);
  } catch (error) {
    refuse(arrival, pipeline, error);
    return undefined;
  }
}

function refuse(arrival: Arrival, { log, events }: Pipeline, error: unknown): void {
  const { reply } = arrival;
  const known =
    error instanceof GatewayError ? error : new GatewayError('internal', 'The gateway failed to pass this request on.', { cause: error });
  if (!(error instanceof GatewayError)) log.error({ err: error }, 'passing a request on failed unexpectedly');
  events.unrecorded(known.code);
  if (reply.gone) return;
  if (reply.headSent) reply.reset();
  else sendError(arrival, known);
}
