import type { IncomingMessage } from 'node:http';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';

/** What counts the bytes that are held of a body. */
export interface BodyHold {
  /** More has come. @param stop ends the reading @throws GatewayError `overloaded` */
  arrive(bytes: number, stop: (reason: GatewayError) => void): void;
  /** Nothing more is to come. */
  settle(): void;
}

/**
 * Reads a body of `node:http`, held as the bytes that it has however it was cut. What is left of one that is not taken is not read.
 * @param limit bytes
 * @throws GatewayError `body_too_large`, `client_gone`, and what `hold` throws
 */
export function readBody(request: IncomingMessage, limit: number, hold: BodyHold): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const collector = new ByteCollector();
    const leave = (): void => {
      request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      request.on('error', () => undefined);
    };
    const stop = (reason: unknown): void => {
      leave();
      request.pause();
      reject(reason instanceof Error ? reason : new Error(String(reason)));
    };
    const onData = (chunk: Uint8Array): void => {
      collector.push(chunk);
      try {
        if (collector.size > limit) throw new GatewayError('body_too_large', `The body is larger than ${limit} bytes.`);
        hold.arrive(chunk.length, stop);
      } catch (error) {
        stop(error);
      }
    };
    const onEnd = (): void => {
      leave();
      hold.settle();
      if (request.complete) resolve(collector.take());
      else reject(gone());
    };
    const onGone = (cause?: unknown): void => {
      leave();
      reject(gone(cause));
    };
    if (request.destroyed) onGone();
    else request.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

function gone(cause?: unknown): GatewayError {
  return new GatewayError('client_gone', 'The client left before its request was complete.', { cause });
}
