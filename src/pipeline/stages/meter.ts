import { endedResponse, orDeferred, orSeen, orUnreported } from '../answer/used.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Used } from '../parts/parts.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';
import { tellOfClientCertificate } from '../route/tunnel-call.ts';

/** Takes tokens and model from what the answer's meter saw, of a broken answer too; then ends the line when the call failed. */
export const meter = defineStage({
  name: 'meter',
  reads: ['answer'],
  sees: ['acceptance'],
  makes: ['used'],
  run({ answer, acceptance }, pipeline) {
    const { call } = answer;
    const delivery = acceptance ?? answer.delivery;
    const { usage, model, seen } = delivery.meter ?? {};
    let used: Used = orSeen({ usage, approximated: false, model }, seen, delivery);
    used = orDeferred(used, call, delivery, pipeline.deferred);
    used = orUnreported(used, call, delivery, seen);
    const over = (): { used: Used } | EndedWith<'used'> => {
      const failure = failureOf(delivery, call.route.host, pipeline);
      return failure ? new EndedWith(failure, { used }) : { used };
    };
    // Before its own record: who has been told that a response has ended may never ask again.
    const ended = endedResponse(call, delivery);
    return ended ? pipeline.deferred.end(ended).then(over) : over();
  },
});

function failureOf({ failure, started }: Delivered, host: string, { events }: Pipeline): Delivered['failure'] {
  tellOfClientCertificate(failure, host, events);
  // A form that goes on otherwise than was decided is a denial, however far its answer had come.
  return failure && (!started || failure.code === 'ambiguous_body') ? failure : undefined;
}
