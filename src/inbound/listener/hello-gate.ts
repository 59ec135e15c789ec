import type { Socket } from 'node:net';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { ClientHelloReader } from './client-hello.ts';

/**
 * Judges a host name that a client asks for in the ClientHello of a passed tunnel (decision 3.9). Undefined: it may
 * pass. A promise: it may not, and that is on record when the promise settles.
 */
export type JudgeServerName = (serverName: string) => Promise<unknown> | undefined;

export interface HelloGateOptions {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly clock: Clock;
  /** How long bytes may wait for the rest of their ClientHello, milliseconds. */
  readonly holdMs: number;
  readonly judge: JudgeServerName;
  /** Called once, instead of letting the client through; `heldBytes` have not reached the upstream. */
  onRefused(recorded: Promise<unknown>, heldBytes: number): void;
}

/**
 * Stands between a client and its passed tunnel until it is known which host the ClientHello names, then pipes the
 * client's bytes, unchanged, into the upstream. What is no TLS passes at its first byte. After `holdMs` the bytes go
 * on, but are still read on their way. Towards the client it does nothing, so that a server which speaks first is not
 * delayed.
 */
export class HelloGate {
  readonly #options: HelloGateOptions;
  /** Undefined once it has said all. */
  #reader: ClientHelloReader | undefined = new ClientHelloReader();
  /** Undefined once the bytes flow, or never will. */
  #held: ByteCollector | undefined = new ByteCollector();
  /** Monotonic milliseconds of the first byte. */
  #since: number | undefined;

  constructor(options: HelloGateOptions) {
    const { client } = options;
    this.#options = options;
    client.on('data', this.#look);
    client.once('end', this.#pass);
    // It ended before it was let in, and will not say so again.
    if (client.readableEnded) this.#pass();
  }

  sweep(now: number): void {
    if (this.#since !== undefined && now - this.#since > this.#options.holdMs) this.#pass();
  }

  readonly #look = (chunk: Uint8Array): void => {
    const { client, clock, onRefused } = this.#options;
    this.#since ??= clock.monotonic();
    this.#held?.push(chunk);
    if (this.#reader?.push(chunk) === false) return;
    client.off('data', this.#look);
    const refused = this.#judged(this.#reader?.names ?? []);
    this.#reader = undefined;
    if (refused === undefined) {
      this.#pass();
      return;
    }
    client.off('end', this.#pass);
    const heldBytes = this.#held?.size ?? 0;
    this.#held = undefined;
    client.unpipe(this.#options.upstream);
    onRefused(refused, heldBytes);
  };

  #judged(names: readonly string[]): Promise<unknown> | undefined {
    for (const name of names) {
      const refused = this.#options.judge(name);
      if (refused !== undefined) return refused;
    }
    return undefined;
  }

  readonly #pass = (): void => {
    const held = this.#held;
    if (held === undefined) return;
    const { client, upstream } = this.#options;
    this.#held = undefined;
    client.off('end', this.#pass);
    if (held.size > 0) upstream.write(held.take());
    client.pipe(upstream);
  };
}
