import type { Duplex } from 'node:stream';
import type { ByteChannel, ChannelEvents } from '../model/channel.ts';

/** A socket, or TLS around one, as a channel. */
export class SocketChannel implements ByteChannel {
  readonly #stream: Duplex;
  readonly #reset: () => void;

  /** @param reset breaks the TCP connection below */
  constructor(stream: Duplex, reset: () => void) {
    this.#stream = stream;
    this.#reset = reset;
  }

  open(events: ChannelEvents): void {
    const stream = this.#stream;
    if (stream.destroyed) {
      events.onClose(true);
      return;
    }
    stream.allowHalfOpen = true;
    let failed = false;
    stream.on('error', () => {
      failed = true;
    });
    stream.on('data', (chunk: Uint8Array) => events.onData(chunk));
    stream.on('drain', () => events.onDrain());
    stream.once('end', () => events.onEnd());
    stream.once('close', () => events.onClose(failed || !stream.readableEnded));
    stream.resume();
  }

  write(chunk: Uint8Array): boolean {
    return !this.#stream.writable || this.#stream.write(chunk);
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  end(): void {
    if (this.#stream.writable) this.#stream.end();
  }

  close(): void {
    const stream = this.#stream;
    if (stream.destroyed) return;
    if (stream.writableFinished) {
      stream.destroy();
      return;
    }
    stream.once('finish', () => stream.destroy());
    this.end();
  }

  reset(): void {
    this.#reset();
    this.#stream.destroy();
  }
}
