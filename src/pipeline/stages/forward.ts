import type { UsageAskRule } from '../../base/catalogue/dialect-rules.ts';
import { setJsonMember } from '../../base/json/json-edit.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { queryOf } from '../../inbound/normalise/path.ts';
import { sentPath } from '../../outbound/connectors/auth.ts';
import type { UpstreamCall } from '../../outbound/net/upstream.ts';
import { Delivery } from '../answer/delivery.ts';
import { askForSocket } from '../answer/open-socket.ts';
import { asksDeferred, isWatched } from '../answer/used.ts';
import { clientOf } from '../body/buffer-budget.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import { callUnderWay } from '../parts/known.ts';
import { type Content, type ForwardedCall, LET_GO, type Outgoing, type Parts } from '../parts/parts.ts';
import { type Control, defineStage } from '../parts/stage.ts';
import { withBytes } from '../parts/with-bytes.ts';
import { bodyTrailers, dialledFor, outboundHeaders } from '../route/outbound-headers.ts';

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
  'cleared',
  'hold',
] as const;
type Read = Pick<Parts, (typeof READ)[number]>;

const INCLUDE_USAGE = ['stream_options', 'include_usage'] as const;
/**
 * Kind of the providers that check a signature. To any other one it is a word of the caller's, which must not keep its
 * stream from being metered.
 */
const CHECKS_SIGNATURES = 'aws';

/** Sends the call. Its answer is carried from now on, all of it but what must wait for the record. */
export const forward = defineStage({
  name: 'forward',
  reads: READ,
  makes: ['answer'],
  run(parts, pipeline, control) {
    const { reply } = parts.arrival;
    if (!reply || reply.gone) throw new GatewayError('client_gone', 'The client left before its call was forwarded.');
    const outgoing = outgoingOf(parts, pipeline.settings);
    const call = forwarded(parts, outgoing.hidesUsage, control);
    const delivery = new Delivery(call, pipeline, reply);
    const { over } = delivery;
    const underWay = callUnderWay(parts.arrival, parts.claims, parts.route);
    control.atEnd(pipeline.running.watch(underWay, (why) => delivery.cut(why)));
    // Held since it was judged: nothing of it is sent.
    if (delivery.failure) throw delivery.failure;
    if (reply.switchProtocols) {
      const { target, dressed } = parts;
      const { headers } = outgoing;
      const handshake = askForSocket(
        { call, target, path: sentPath(dressed.path, dressed.query), headers, signed: dressed.signed },
        pipeline,
        delivery,
      );
      return { answer: { call, delivery, over, handshake } };
    }
    const upstreamCall = callOf({ parts, outgoing, client: call.client, delivery }, pipeline.settings);
    letGoOfBody(parts, outgoing, control);
    delivery.attach(pipeline.upstream.call(upstreamCall, delivery));
    return { answer: { call, delivery, over, handshake: undefined } };
  },
});

/** What is kept of the call while it is answered. */
function forwarded(parts: Read, hidesUsage: boolean, control: Control): ForwardedCall {
  const { arrival, claims, proof, judgement, mutation, mutated, route, hold, repeatable } = parts;
  return {
    arrival,
    claims,
    judgement,
    mutation,
    route,
    hold,
    client: clientOf(arrival.callerIp, proof),
    hidesUsage,
    copy: repeatable?.copy,
    deferring: asksDeferred(arrival.line, route, mutated),
    draft: () => control.draft(),
  };
}

interface Sending {
  readonly parts: Read;
  readonly outgoing: Outgoing;
  readonly client: string;
  readonly delivery: Delivery;
}

function callOf({ parts, outgoing, client, delivery }: Sending, settings: PipelineSettings): UpstreamCall {
  const { arrival, claims, intake, route, dressed } = parts;
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
    headers: outboundHeaders({ arrival, route, headers: outgoing.headers, signed: dressed.signed }, settings),
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
 * Lets go of what was read of a body, once the call is on its way: text and params are several times as large as the
 * bytes, and an answer may take an hour. The bytes that are sent are the net room's from here on.
 */
function letGoOfBody({ intake, mutated, route }: Read, outgoing: Outgoing, control: Control): void {
  intake.upload?.settle(mutated.params, route.operation);
  control.drop(...LET_GO);
  // The beginning of a form is held until it is sent.
  if (!intake.upload) intake.held?.keep(outgoing.bytes?.length ?? 0);
}

/**
 * The body that is sent. `GW_METER_INJECT_USAGE` asks for the usage of a stream whose caller does not, by default where
 * a cap or limit watches what it costs (decision 6.4). What policy has seen and the record's hash stay the caller's
 * request; one that its caller signed is left as it is.
 */
function outgoingOf(parts: Read, settings: PipelineSettings): Outgoing {
  const { mutated, dressed, intake } = parts;
  const text = isAsked(parts, settings) ? withUsage(mutated) : undefined;
  const { headers } = dressed;
  if (text === undefined) return { headers, bytes: mutated.bytes, hidesUsage: false };
  const sent = withBytes({ ...mutated, headers }, Buffer.from(text), intake);
  return { headers: sent.headers, bytes: sent.bytes, hidesUsage: true };
}

/** Undefined where the caller asks for it, and for options that have no members: those are the provider's to refuse. */
function withUsage({ body }: Content): string | undefined {
  if (body?.kind !== 'json') return undefined;
  const options = body.params[INCLUDE_USAGE[0]];
  if (typeof options === 'object' && options !== null && Reflect.get(options, INCLUDE_USAGE[1]) === true) return undefined;
  return setJsonMember(body.text, INCLUDE_USAGE, true);
}

function isAsked(parts: Read, { injectUsage }: PipelineSettings): boolean {
  const { route, mutated, dressed } = parts;
  const { operation, stream, provider } = route;
  if (injectUsage === 'false' || !stream || operation?.dialect?.usageOnRequest !== true) return false;
  if (dressed.signed && provider?.kind === CHECKS_SIGNATURES) return false;
  if (injectUsage === 'capped' && !isWatched(parts)) return false;
  const { usageAskedIf } = operation.dialect;
  return usageAskedIf === undefined || mayAsk(dressed.path, mutated.params, usageAskedIf);
}

function mayAsk(path: string, params: Content['params'], { version, without }: UsageAskRule): boolean {
  if (without.some((name) => Object.hasOwn(params, name))) return false;
  return version === undefined || (new URLSearchParams(queryOf(path)).get(version.query) ?? '') >= version.since;
}
