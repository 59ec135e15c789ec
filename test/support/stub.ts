import { startTlsUpstream, type TestUpstream } from './tls-upstream.ts';

/** Bytes that an answer consists of. A list is sent piece by piece, one per turn of the event loop. */
export interface StubAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | readonly (string | Uint8Array)[];
}

/**
 * OUR OWN stub for forms that the independent mock does not know (Gemini `/v1/`, usage in Mistral streams, Anthropic `count_tokens`): a plain table from
 * `METHOD /path` (the query is not looked at) to recorded bytes. It proves what our code does with these bytes, never what a provider sends.
 */
export async function startStub(hosts: readonly string[], routes: Readonly<Record<string, StubAnswer>>): Promise<TestUpstream> {
  return startTlsUpstream({
    hosts,
    handler: (request, response, whole) => {
      const path = (request.url ?? '').split('?', 1)[0] ?? '';
      const answer = routes[`${request.method ?? ''} ${path}`];
      void whole.then(() => {
        if (answer === undefined) {
          response.writeHead(404, { 'Content-Type': 'text/plain' });
          response.end(`the stub has no ${request.method ?? ''} ${path}\n`);
          return;
        }
        response.writeHead(answer.status ?? 200, { 'Content-Type': 'application/json', ...answer.headers });
        sendPieces([...(isList(answer.body) ? answer.body : [answer.body])], response);
      });
    },
  });
}

function isList(body: StubAnswer['body']): body is readonly (string | Uint8Array)[] {
  return Array.isArray(body);
}

function sendPieces(pieces: (string | Uint8Array)[], response: { write(piece: string | Uint8Array): void; end(): void }): void {
  const piece = pieces.shift();
  if (piece === undefined) {
    response.end();
    return;
  }
  response.write(piece);
  setImmediate(sendPieces, pieces, response);
}

/** Recorded answers in the forms that the independent mock lacks; 11 tokens in and 7 out everywhere. */
export const STUB_ROUTES: Readonly<Record<string, StubAnswer>> = {
  'POST /v1/models/gemini-2.5-flash:generateContent': {
    body: JSON.stringify({
      candidates: [{ content: { role: 'model', parts: [{ text: 'Hello from the stub.' }] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 },
      modelVersion: 'gemini-2.5-flash',
    }),
  },
  'POST /v1/models/gemini-2.5-flash:streamGenerateContent': {
    headers: { 'Content-Type': 'text/event-stream' },
    body: [
      'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello "}]},"index":0}],"usageMetadata":{"promptTokenCount":11},"modelVersion":"gemini-2.5-flash"}\r\n\r\n',
      'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"there."}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"gemini-2.5-flash"}\r\n\r\n',
    ],
  },
  'POST /v1/chat/completions': {
    headers: { 'Content-Type': 'text/event-stream' },
    body: [
      'data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mistral-small-latest","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
      'data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mistral-small-latest","choices":[{"index":0,"delta":{"content":"Hello there."},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}\n\n',
      'data: [DONE]\n\n',
    ],
  },
  'POST /v1/messages/count_tokens': { body: '{"input_tokens":11}' },
};
