import { acceptedSocket } from '../answer/open-socket.ts';
import { defineStage } from '../parts/stage.ts';

/** Waits until nothing more will come of the answer, or until a WebSocket is accepted. How it went is the next stage's question. */
export const carry = defineStage({
  name: 'carry',
  reads: ['answer'],
  makes: ['acceptance'],
  run({ answer }, pipeline) {
    if (answer.handshake) return acceptedSocket(answer, answer.handshake, pipeline).then((acceptance) => ({ acceptance }));
    return answer.over.then((acceptance) => ({ acceptance }));
  },
});
