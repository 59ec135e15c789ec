import { validateHeaderName } from 'node:http';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { UpgradeEvents, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { answerError, MAX_STATUS, NO_STATUS, NOT_A_FIELD } from './upstream-error.ts';

export interface AnswerGuardOptions {
  readonly events: UpstreamEvents | UpgradeEvents;
  readonly authority: Authority;
  readonly log: Logger;
  /** False where the reader of the answer has looked at every byte of its head. */
  readonly looksAtHeads: boolean;
}

/** RFC 9110 §5.5: HTAB, SP, VCHAR, obs-text. */
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Stands between an upstream's bytes and whoever carries them to a client. What it hands on can be written: a head
 * whose status or fields HTTP does not have fails the call as any other answer that is none. And what its listener
 * throws fails that call alone: it would be thrown out of a socket's event, which ends the process.
 */
export class AnswerGuard implements UpgradeEvents {
  readonly #options: AnswerGuardOptions;
  #handle: UpstreamHandle | undefined;
  /** The listener has heard its last event. */
  #over = false;

  constructor(options: AnswerGuardOptions) {
    this.#options = options;
  }

  /** Called once, before the first event. @returns the handle */
  guards(handle: UpstreamHandle): UpstreamHandle {
    this.#handle = handle;
    return handle;
  }

  onInfo(status: number, rawHeaders: readonly string[]): void {
    const { events } = this.#options;
    // A hint is not worth an answer's failure.
    if (this.#faultOf(rawHeaders) !== undefined) return;
    this.#tell(() => events.onInfo?.(status, rawHeaders));
  }

  onHead(status: number, rawHeaders: readonly string[], resume: () => void, empty?: boolean): void {
    const { events, authority, looksAtHeads } = this.#options;
    if (this.#over) return;
    const isStatus = status >= 200 && status <= MAX_STATUS;
    if (!isStatus || (looksAtHeads && !areFields(rawHeaders))) {
      this.#fail(answerError(authority, isStatus ? NOT_A_FIELD : NO_STATUS));
      return;
    }
    try {
      events.onHead(status, rawHeaders, resume, empty);
    } catch (error) {
      this.#broke(error);
    }
  }

  onData(chunk: Uint8Array): boolean {
    if (this.#over) return true;
    try {
      return this.#options.events.onData(chunk);
    } catch (error) {
      this.#broke(error);
      return true;
    }
  }

  onEnd(trailers: readonly string[]): void {
    const { events, looksAtHeads } = this.#options;
    if (this.#over) return;
    try {
      // The body is whole without trailers that cannot be written.
      events.onEnd(looksAtHeads && !areFields(trailers) ? [] : trailers);
    } catch (error) {
      this.#broke(error);
    }
    this.#over = true;
  }

  onError(error: GatewayError, h2Code?: number): void {
    if (this.#over) return;
    this.#over = true;
    try {
      this.#options.events.onError(error, h2Code);
    } catch (thrown) {
      this.#log(thrown);
    }
  }

  onUpgrade(rawHeaders: readonly string[], channel: ByteChannel): void {
    const { events, authority } = this.#options;
    const fault = this.#faultOf(rawHeaders);
    if (fault !== undefined || !('onUpgrade' in events)) {
      channel.reset();
      this.#fail(answerError(authority, fault ?? NO_STATUS));
      return;
    }
    this.#tell(() => events.onUpgrade(rawHeaders, channel));
    if (this.#over) channel.reset();
    this.#over = true;
  }

  #tell(event: () => void): void {
    if (this.#over) return;
    try {
      event();
    } catch (error) {
      this.#broke(error);
    }
  }

  #broke(error: unknown): void {
    this.#log(error);
    this.#fail(
      error instanceof GatewayError
        ? error
        : new GatewayError('internal', 'The gateway failed to handle this answer; its log has the details.', { cause: error }),
    );
  }

  #fail(error: GatewayError): void {
    this.#handle?.abort();
    this.onError(error);
  }

  #log(error: unknown): void {
    this.#options.log.error({ err: error, host: this.#options.authority.host }, 'handling an answer failed unexpectedly');
  }

  #faultOf(rawHeaders: readonly string[]): string | undefined {
    return this.#options.looksAtHeads && !areFields(rawHeaders) ? NOT_A_FIELD : undefined;
  }
}

function areFields(rawHeaders: readonly string[]): boolean {
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (NOT_A_VALUE.test(rawHeaders[i + 1] ?? '')) return false;
    try {
      validateHeaderName(rawHeaders[i] ?? '');
    } catch {
      return false;
    }
  }
  return true;
}
