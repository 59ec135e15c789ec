import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sentPath } from '../../outbound/connectors/auth.ts';
import type { UpstreamCall } from '../../outbound/net/upstream.ts';
import { Delivery } from '../answer/delivery.ts';
import { askForSocket } from '../answer/open-socket.ts';
import { asksDeferred } from '../answer/used.ts';
import { clientOf } from '../body/client-of.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import { callerOf } from '../parts/known.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { LET_GO, type Parts } from '../parts/parts.ts';
import { quarantinedWhileRunning } from '../parts/refusal.ts';
import { type Control, defineStage } from '../parts/stage.ts';
import { outboundHeaders } from '../route/outbound-headers.ts';
import { bodyTrailers, dialledFor } from '../route/tunnel-call.ts';

const READ = [
  'arrival',
  'claims',
  'target',
  'proof',
  'intake',
  'repeatable',
  'judgement',
  'mutation',
  'mutated',
  'route',
  'dressed',
  'signed',
  'cleared',
  'hold',
  'outgoing',
] as const;
type Read = Pick<Parts, (typeof READ)[number]>;

/** Sends the call. Its answer is carried from now on, all of it but what must wait for the record. */
export const forward = defineStage({
  name: 'forward',
  reads: READ,
  makes: ['answer'],
  run(parts, pipeline, control) {
    const { reply } = parts.arrival;
    if (!reply || reply.gone) throw new GatewayError('client_gone', 'The client left before its call was forwarded.');
    const call = forwarded(parts, control);
    const delivery = new Delivery(call, pipeline, reply);
    const { over } = delivery;
    control.atEnd(pipeline.running.watch(callerOf(parts.arrival, parts.claims), () => delivery.cut(quarantinedWhileRunning())));
    if (reply.switchProtocols) {
      const { target, dressed, outgoing, signed } = parts;
      const { headers } = outgoing;
      const handshake = askForSocket(
        { call, target, path: sentPath(dressed.path, dressed.query), headers, signed: signed.headers },
        pipeline,
        delivery,
      );
      return { answer: { call, delivery, over, handshake } };
    }
    const upstreamCall = callOf(parts, pipeline.settings, call.client, delivery);
    letGoOfBody(parts, control);
    delivery.attach(pipeline.upstream.call(upstreamCall, delivery));
    return { answer: { call, delivery, over, handshake: undefined } };
  },
});

/** What is kept of the call while it is answered. */
function forwarded(parts: Read, control: Control): ForwardedCall {
  const { arrival, claims, proof, judgement, mutation, mutated, route, hold, outgoing, repeatable } = parts;
  return {
    arrival,
    claims,
    judgement,
    mutation,
    route,
    hold,
    client: clientOf(arrival.callerIp, proof),
    hidesUsage: outgoing.hidesUsage,
    copy: repeatable?.copy,
    deferring: asksDeferred(arrival.line, route, mutated),
    draft: () => control.draft(),
  };
}

function callOf(parts: Read, settings: PipelineSettings, client: string, delivery: Delivery): UpstreamCall {
  const { arrival, claims, intake, route, dressed, outgoing, signed } = parts;
  const { streamed, held } = intake;
  if (!streamed && held && outgoing.bytes) delivery.bodyWaits = true;
  const { host, port, tls, method } = route;
  const { body } = arrival;
  const authority = { host, port };
  return {
    authority,
    on: dialledFor(arrival.head, authority),
    org: claims.orgId,
    client,
    tls,
    method,
    path: sentPath(dressed.path, dressed.query),
    headers: outboundHeaders({ arrival, route, headers: outgoing.headers, signed: signed.headers }, settings),
    body: streamed ?? outgoing.bytes,
    ...(streamed || !held
      ? {}
      : {
          onBodyGone: () => {
            delivery.bodyWaits = false;
            held.keep(0);
          },
        }),
    ...(streamed && body ? { trailers: () => bodyTrailers(body, settings.adminToken) } : {}),
    ...(streamed?.length === undefined ? {} : { bodyLength: streamed.length }),
  };
}

/**
 * Lets go of what was read of a body, once the call is on its way: text and params are several times as large as the bytes, and an answer may take an hour. The bytes
 * that are sent are the net room's from here on.
 */
function letGoOfBody({ intake, mutated, route, outgoing }: Read, control: Control): void {
  intake.upload?.settle(mutated.params, route.operation);
  for (const part of LET_GO) control.drop(part);
  // The beginning of a form is held until it is sent.
  if (!intake.upload) intake.held?.keep(outgoing.bytes?.length ?? 0);
}
