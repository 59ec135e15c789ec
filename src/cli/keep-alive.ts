import { MessageChannel } from 'node:worker_threads';

/** Holds the process while a command waits for time or a signal: neither the clock nor a listener for signals does. @returns lets go of it */
export function keepAlive(): () => void {
  const { port1 } = new MessageChannel();
  port1.on('message', () => undefined);
  return () => port1.close();
}
