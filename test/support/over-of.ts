import type { EventEmitter } from 'node:events';

/**
 * Resolves when a connection or stream is closed. Unlike `once` it does not reject when that begins with an error: a
 * reset is one way to end.
 */
export function overOf(closable: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    closable.on('error', () => undefined).once('close', resolve);
  });
}
