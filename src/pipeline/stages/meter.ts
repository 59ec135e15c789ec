import type { Maybe } from '../../base/lib/maybe.ts';
import { acceptedSocket } from '../answer/open-socket.ts';
import { endedResponse, orDeferred, orSeen, orUnreported } from '../answer/used.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Answered, Parts, Used } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { tellOfClientCertificate } from '../route/outbound-headers.ts';

type Made = Pick<Parts, 'acceptance' | 'used'>;

/**
 * Waits until nothing more will come of the answer, or until a WebSocket is accepted. Takes tokens and model from what
 * the answer's meter saw, of a broken answer too; then ends the line when the call failed.
 */
export const meter = defineStage({
  name: 'meter',
  reads: ['answer'],
  makes: ['acceptance', 'used'],
  run({ answer }, pipeline) {
    const { handshake, over } = answer;
    const came = handshake ? acceptedSocket(answer, handshake, pipeline) : over;
    return came.then((acceptance) => metered(answer, acceptance, pipeline));
  },
});

function metered(
  { call, delivery: answered }: Answered,
  acceptance: Delivered | undefined,
  pipeline: Pipeline,
): Maybe<Made | EndedWith<keyof Made>> {
  const delivery = acceptance ?? answered;
  const { usage, model, seen } = delivery.meter ?? {};
  let used: Used = orSeen({ usage, approximated: false, model }, seen, delivery);
  used = orDeferred(used, call, delivery, pipeline.deferred);
  used = orUnreported(used, call, delivery, seen);
  const end = (): Made | EndedWith<keyof Made> => {
    const failure = failureOf(delivery, call.route.host, pipeline);
    return failure ? new EndedWith(failure, { acceptance, used }) : { acceptance, used };
  };
  // Before its own record: who has been told that a response has ended may never ask again.
  const ended = endedResponse(call, delivery);
  return ended ? pipeline.deferred.end(ended).then(end) : end();
}

function failureOf({ failure, started }: Delivered, host: string, { events }: Pipeline): Delivered['failure'] {
  tellOfClientCertificate(failure, host, events);
  // A form that goes on otherwise than was decided is a denial, however far its answer had come.
  return failure && (!started || failure.code === 'ambiguous_body') ? failure : undefined;
}
