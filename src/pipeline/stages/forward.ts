import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { UpstreamCall } from '../../outbound/net/upstream.ts';
import { Delivery } from '../delivery.ts';
import type { Exchange } from '../exchange.ts';
import { letGoOfBody } from '../let-go.ts';
import { outboundHeaders } from '../outbound-headers.ts';
import { openSocket } from '../socket/open-socket.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { bodyTrailers, dialledFor } from '../tunnel-call.ts';

/** Sends the call and carries the answer, all of it but what must wait for the record. How it went is the next stage's question. */
export const forward: Stage = {
  name: 'forward',
  run(exchange, pipeline) {
    const { reply } = exchange;
    if (!reply || reply.gone) throw new GatewayError('client_gone', 'The client left before its call was forwarded.');
    const delivery = new Delivery(exchange, pipeline, reply);
    exchange.delivery = delivery;
    if (reply.switchProtocols) return openSocket(exchange, pipeline, delivery);
    const call = callOf(exchange, pipeline);
    letGoOfBody(exchange);
    delivery.attach(pipeline.upstream.call(call, delivery));
    return delivery.over;
  },
};

function callOf(exchange: Exchange, pipeline: Pipeline): UpstreamCall {
  const { streamed, body, held } = exchange;
  const authority = { host: exchange.host, port: exchange.port };
  return {
    authority,
    on: dialledFor(exchange.head, authority),
    tls: exchange.tls,
    method: exchange.method,
    path: exchange.path,
    headers: outboundHeaders(exchange, pipeline),
    body: streamed ?? exchange.sendBytes,
    ...(streamed || !held ? {} : { onBodyGone: () => held.keep(0) }),
    ...(streamed && body ? { trailers: () => bodyTrailers(body, pipeline.settings.adminToken) } : {}),
    ...(streamed?.length === undefined ? {} : { bodyLength: streamed.length }),
  };
}
