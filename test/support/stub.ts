/** The bytes of one answer; a list is sent piece by piece. */
export interface StubAnswer {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | readonly string[];
}

/**
 * OUR OWN recorded answers by `METHOD /path`, for forms that the independent mock does not know (Gemini `/v1/`, usage
 * in Mistral streams, Anthropic `count_tokens`). They prove what our code does with these bytes, never what a provider
 * sends. 11 tokens in and 7 out everywhere.
 */
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
