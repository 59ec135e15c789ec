import { startTlsUpstream, type TestUpstream } from './tls-upstream.ts';

export interface OpenaiStreamOptions {
  /** Names of the certificate; default api.openai.com. */
  readonly hosts?: readonly string[];
  /** Milliseconds between two events; 0 writes them all in one turn. Default 0. */
  readonly gapMs?: number;
  /** The stream is cut (connection broken) after that many events instead of ended. */
  readonly cutAfter?: number;
}

export interface OpenaiStreamUpstream extends TestUpstream {
  /** Events written so far, over all requests. */
  readonly written: number;
  /** Requests whose client left before the stream had ended. */
  readonly aborted: number;
}

/** An OpenAI chat stream of `events` content events, a usage event (11 in, 7 out) and `[DONE]`, behind TLS. */
export async function startOpenaiStream(events: number, options: OpenaiStreamOptions = {}): Promise<OpenaiStreamUpstream> {
  const { hosts = ['api.openai.com'], gapMs = 0, cutAfter } = options;
  let written = 0;
  let aborted = 0;
  const upstream = await startTlsUpstream({
    hosts,
    handler: (_request, response, body) => {
      void body.then(() => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
        let next = 0;
        let timer: NodeJS.Timeout | undefined;
        const step = (): void => {
          if (next === cutAfter) {
            response.destroy();
            return;
          }
          if (next === events) {
            response.end(openaiStreamTail());
            return;
          }
          response.write(openaiStreamEvent(next++));
          written++;
          if (gapMs === 0) step();
          else timer = setTimeout(step, gapMs);
        };
        response.on('close', () => {
          clearTimeout(timer);
          if (!response.writableEnded && next !== cutAfter) aborted++;
        });
        step();
      });
    },
  });
  return {
    ...upstream,
    get connections() {
      return upstream.connections;
    },
    get open() {
      return upstream.open;
    },
    get resumed() {
      return upstream.resumed;
    },
    get written() {
      return written;
    },
    get aborted() {
      return aborted;
    },
  };
}

/** One content event, as its bytes stand on the wire. */
export function openaiStreamEvent(index: number): string {
  return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"w${index} "},"finish_reason":null}]}\n\n`;
}

/** The usage event and the terminator. */
export function openaiStreamTail(): string {
  return (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[],' +
    '"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}\n\ndata: [DONE]\n\n'
  );
}
