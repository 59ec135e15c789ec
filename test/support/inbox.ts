import type { UpstreamHandler } from './tls-upstream.ts';

/** One message that came. */
export interface Received {
  readonly host: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Of JSON. */
  readonly body: Record<string, unknown>;
}

export interface InboxAnswer {
  readonly status: number;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Receives what is posted to several hosts, answers as it is told to, and lets a test wait for what comes. */
export class Inbox {
  readonly received: Received[] = [];
  readonly #answer: (message: Received) => InboxAnswer | undefined;
  #wake: () => void = () => undefined;

  /** @param answer undefined: no answer is given */
  constructor(answer: (message: Received) => InboxAnswer | undefined) {
    this.#answer = answer;
  }

  /** Of a server; other hosts go to `others`. */
  handler(hosts: readonly string[], others?: UpstreamHandler): UpstreamHandler {
    return (request, response, whole) => {
      const host = request.headers.host ?? '';
      if (!hosts.includes(host) && others) {
        others(request, response, whole);
        return;
      }
      void whole.then((bytes) => {
        const text = bytes.toString();
        const message = {
          host,
          method: request.method ?? '',
          path: request.url ?? '',
          headers: request.headers,
          text,
          body: JSON.parse(text) as Record<string, unknown>,
        };
        this.received.push(message);
        this.#wake();
        const answer = this.#answer(message);
        if (answer) response.writeHead(answer.status, answer.headers).end(answer.text ?? '');
      });
    };
  }

  of(host: string): readonly Received[] {
    return this.received.filter((one) => one.host === host);
  }

  async until(reached: () => boolean): Promise<void> {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
