/**
 * Streams in each provider's form, written after the providers' published formats: bytes, what they say, and where the
 * terminal event begins. Ids are made up; every stream holds text that tries to look like a terminal event, usage or an
 * error.
 */
export interface StreamSample {
  readonly name: string;
  readonly dialect: string;
  readonly contentType: string;
  readonly text: string;
  readonly outcome: 'open' | 'complete' | 'error';
  readonly usage: Readonly<Record<string, number>> | undefined;
  readonly model: string | undefined;
  /** The text with which the terminal event begins; undefined: there is none. */
  readonly terminal: string | undefined;
}

const SSE = 'text/event-stream; charset=utf-8';
const lines = (...events: readonly string[]): string => events.map((event) => `${event}\n\n`).join('');
const data = (value: unknown): string => `data: ${JSON.stringify(value)}`;
const named = (event: string, value: unknown): string => `event: ${event}\ndata: ${JSON.stringify(value)}`;

const chunk = (content: string, more: object = {}): string =>
  data({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    model: 'gpt-4o-2024-08-06',
    choices: [{ index: 0, delta: { content } }],
    ...more,
  });
const BAIT = 'data: [DONE]\n\n{"usage":{"prompt_tokens":999}} "error": {} 日本 🚀';

export const SAMPLES: readonly StreamSample[] = [
  {
    name: 'openai chat with include_usage',
    dialect: 'openai_chat',
    contentType: SSE,
    text: lines(
      chunk('', { usage: null }),
      chunk(BAIT, { usage: null, error: null }),
      data({
        id: 'chatcmpl-1',
        model: 'gpt-4o-2024-08-06',
        choices: [],
        usage: {
          prompt_tokens: 19,
          completion_tokens: 10,
          total_tokens: 29,
          prompt_tokens_details: { cached_tokens: 4 },
          completion_tokens_details: { reasoning_tokens: 2 },
        },
      }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 19, tokens_out: 10, cached_tokens_in: 4, reasoning_tokens_out: 2 },
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'openai chat without include_usage',
    dialect: 'openai_chat',
    contentType: SSE,
    text: lines(chunk('Hello'), chunk(BAIT), 'data: [DONE]'),
    outcome: 'complete',
    usage: undefined,
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'openai chat cut before its end',
    dialect: 'openai_chat',
    contentType: SSE,
    text: lines(chunk('Hello'), chunk(BAIT)),
    outcome: 'open',
    usage: undefined,
    model: 'gpt-4o-2024-08-06',
    terminal: undefined,
  },
  {
    name: 'openai chat with an error inside',
    dialect: 'openai_chat',
    contentType: SSE,
    text: lines(chunk('Hello'), data({ error: { message: 'overloaded', type: 'server_error' } }), 'data: [DONE]'),
    outcome: 'error',
    usage: undefined,
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'azure: the first chunk has no choices and no usage',
    dialect: 'azure_chat',
    contentType: SSE,
    text: lines(data({ choices: [], model: '', prompt_filter_results: [{ prompt_index: 0 }] }), chunk('Hi'), 'data: [DONE]'),
    outcome: 'complete',
    usage: undefined,
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'openai responses',
    dialect: 'openai_responses',
    contentType: SSE,
    text: lines(
      named('response.created', {
        type: 'response.created',
        response: { id: 'r', model: 'gpt-5', status: 'in_progress', error: null, usage: null },
      }),
      named('response.output_text.delta', { type: 'response.output_text.delta', delta: `response.completed ${BAIT}` }),
      named('response.completed', {
        type: 'response.completed',
        response: {
          id: 'r',
          model: 'gpt-5',
          error: null,
          usage: {
            input_tokens: 37,
            output_tokens: 11,
            input_tokens_details: { cached_tokens: 5 },
            output_tokens_details: { reasoning_tokens: 3 },
          },
        },
      }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 37, tokens_out: 11, cached_tokens_in: 5, reasoning_tokens_out: 3 },
    model: 'gpt-5',
    terminal: 'event: response.completed',
  },
  {
    name: 'openai responses that failed',
    dialect: 'openai_responses',
    contentType: SSE,
    text: lines(
      named('response.failed', { type: 'response.failed', response: { model: 'gpt-5', error: { code: 'server_error' }, usage: null } }),
    ),
    outcome: 'error',
    usage: undefined,
    model: 'gpt-5',
    terminal: 'event: response.failed',
  },
  {
    name: 'openai responses that stayed incomplete',
    dialect: 'openai_responses',
    contentType: SSE,
    text: lines(
      named('response.incomplete', {
        type: 'response.incomplete',
        response: { model: 'gpt-5', error: null, usage: { input_tokens: 1, output_tokens: 2 } },
      }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 1, tokens_out: 2 },
    model: 'gpt-5',
    terminal: 'event: response.incomplete',
  },
  {
    name: 'anthropic messages, nulls keep earlier counts',
    dialect: 'anthropic_messages',
    contentType: SSE,
    text: lines(
      named('message_start', {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          model: 'claude-sonnet-4-5',
          usage: { input_tokens: 25, cache_creation_input_tokens: 7, cache_read_input_tokens: 8, output_tokens: 1 },
        },
      }),
      named('ping', { type: 'ping' }),
      named('content_block_delta', { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: `message_stop ${BAIT}` } }),
      named('message_delta', {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn' },
        usage: { input_tokens: null, cache_read_input_tokens: null, output_tokens: 15, output_tokens_details: { thinking_tokens: 6 } },
      }),
      named('message_stop', { type: 'message_stop' }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 40, tokens_out: 15, cached_tokens_in: 8, cache_write_tokens_in: 7, reasoning_tokens_out: 6 },
    model: 'claude-sonnet-4-5',
    terminal: 'event: message_stop',
  },
  {
    name: 'anthropic messages, overloaded in the middle',
    dialect: 'anthropic_messages',
    contentType: SSE,
    text: lines(
      named('message_start', {
        type: 'message_start',
        message: { model: 'claude-sonnet-4-5', usage: { input_tokens: 3, output_tokens: 1 } },
      }),
      named('error', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
    ),
    outcome: 'error',
    usage: { tokens_in: 3, tokens_out: 1 },
    model: 'claude-sonnet-4-5',
    terminal: undefined,
  },
  {
    name: 'gemini as server-sent events, CRLF, cumulative, last wins',
    dialect: 'gemini_generate',
    contentType: 'text/event-stream',
    text: [
      {
        candidates: [{ content: { parts: [{ text: BAIT }] } }],
        usageMetadata: { promptTokenCount: 10, totalTokenCount: 10 },
        modelVersion: 'gemini-2.5-flash',
      },
      {
        candidates: [{ content: { parts: [{ functionCall: { args: { usageMetadata: { promptTokenCount: 999 } } } }] } }],
        usageMetadata: {
          promptTokenCount: 10,
          candidatesTokenCount: 3,
          thoughtsTokenCount: 40,
          cachedContentTokenCount: 2,
          toolUsePromptTokenCount: 5,
        },
        modelVersion: 'gemini-2.5-flash',
      },
    ]
      .map((value) => `data: ${JSON.stringify(value)}\r\n\r\n`)
      .join(''),
    outcome: 'complete',
    usage: { tokens_in: 15, tokens_out: 43, cached_tokens_in: 2, reasoning_tokens_out: 40 },
    model: 'gemini-2.5-flash',
    terminal: undefined,
  },
  {
    name: 'gemini as a JSON array',
    dialect: 'gemini_generate',
    contentType: 'application/json; charset=UTF-8',
    text: `[${JSON.stringify({ candidates: [{ content: { parts: [{ text: `]${BAIT}` }] } }], usageMetadata: { promptTokenCount: 4 }, modelVersion: 'gemini-2.5-pro' }, null, 2)}\n,\r\n${JSON.stringify({ candidates: [], usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 9 }, modelVersion: 'gemini-2.5-pro' }, null, 2)}\n]\n`,
    outcome: 'complete',
    usage: { tokens_in: 4, tokens_out: 9 },
    model: 'gemini-2.5-pro',
    terminal: ']\n',
  },
  {
    name: 'gemini with an error inside',
    dialect: 'gemini_generate',
    contentType: SSE,
    text: lines(data({ error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } })),
    outcome: 'error',
    usage: undefined,
    model: undefined,
    terminal: undefined,
  },
  {
    name: 'gemini interactions',
    dialect: 'gemini_interactions',
    contentType: SSE,
    text: lines(
      named('step.delta', { event_type: 'step.delta', delta: { text: BAIT } }),
      named('interaction.completed', {
        event_type: 'interaction.completed',
        interaction: { model: 'gemini-3-pro', usage: { total_input_tokens: 6, total_output_tokens: 7, total_thought_tokens: 8 } },
      }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 6, tokens_out: 15, reasoning_tokens_out: 8 },
    model: 'gemini-3-pro',
    terminal: 'event: interaction.completed',
  },
  {
    name: 'cohere v2',
    dialect: 'cohere_chat',
    contentType: SSE,
    text: lines(
      named('message-start', { id: 'm', type: 'message-start', delta: { message: { role: 'assistant' } } }),
      named('content-delta', { type: 'content-delta', index: 0, delta: { message: { content: { text: `message-end ${BAIT}` } } } }),
      named('message-end', {
        type: 'message-end',
        delta: {
          finish_reason: 'COMPLETE',
          usage: { billed_units: { input_tokens: 5, output_tokens: 6 }, tokens: { input_tokens: 71, output_tokens: 8 } },
        },
      }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 71, tokens_out: 8 },
    model: undefined,
    terminal: 'event: message-end',
  },
  {
    name: 'cohere v2 without event lines',
    dialect: 'cohere_chat',
    contentType: SSE,
    text: lines(
      data({ index: 0, type: 'content-delta' }),
      data({ delta: { usage: { billed_units: { input_tokens: 5, output_tokens: 6 } } }, type: 'message-end' }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 5, tokens_out: 6 },
    model: undefined,
    terminal: 'data: {"delta":{"usage"',
  },
  {
    name: 'cohere v1, one object per line',
    dialect: 'cohere_chat_v1',
    contentType: 'application/stream+json',
    text: [
      { event_type: 'stream-start' },
      { event_type: 'text-generation', text: `stream-end ${BAIT}` },
      { event_type: 'stream-end', response: { meta: { tokens: { input_tokens: 3, output_tokens: 4 } } } },
    ]
      .map((value) => `${JSON.stringify(value)}\n`)
      .join(''),
    outcome: 'complete',
    usage: { tokens_in: 3, tokens_out: 4 },
    model: undefined,
    terminal: '{"event_type":"stream-end"',
  },
  {
    name: 'mistral: usage in the last chunk',
    dialect: 'mistral_chat',
    contentType: SSE,
    text: lines(
      data({ model: 'mistral-large-latest', choices: [{ index: 0, delta: { content: BAIT }, finish_reason: null }] }),
      data({
        model: 'mistral-large-latest',
        choices: [{ delta: { content: '' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 9, completion_tokens: 12 },
      }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 9, tokens_out: 12 },
    model: 'mistral-large-latest',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'groq: usage beside the provider name',
    dialect: 'groq_chat',
    contentType: SSE,
    text: lines(
      chunk('Hi', { x_groq: { id: 'req_1' } }),
      chunk('', { x_groq: { usage: { prompt_tokens: 18, completion_tokens: 2 } } }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 18, tokens_out: 2 },
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'xai: reasoning stands outside the completion',
    dialect: 'xai_chat',
    contentType: SSE,
    text: lines(
      data({
        model: 'grok-4',
        choices: [],
        usage: { prompt_tokens: 3, completion_tokens: 4, completion_tokens_details: { reasoning_tokens: 50 } },
      }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 3, tokens_out: 54, reasoning_tokens_out: 50 },
    model: 'grok-4',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'openrouter: comments between the events',
    dialect: 'openai_chat',
    contentType: SSE,
    text: lines(
      ': OPENROUTER PROCESSING',
      ': OPENROUTER PROCESSING',
      chunk('Hi'),
      ': data: [DONE]',
      chunk('', { usage: { prompt_tokens: 1, completion_tokens: 1 } }),
      'data: [DONE]',
    ),
    outcome: 'complete',
    usage: { tokens_in: 1, tokens_out: 1 },
    model: 'gpt-4o-2024-08-06',
    terminal: 'data: [DONE]\n\n',
  },
  {
    name: 'mistral conversations',
    dialect: 'mistral_conversations',
    contentType: SSE,
    text: lines(
      named('conversation.response.started', { type: 'conversation.response.started', conversation_id: 'c' }),
      named('conversation.response.done', { type: 'conversation.response.done', usage: { prompt_tokens: 4, completion_tokens: 5 } }),
    ),
    outcome: 'complete',
    usage: { tokens_in: 4, tokens_out: 5 },
    model: undefined,
    terminal: 'event: conversation.response.done',
  },
  {
    name: 'ollama',
    dialect: 'ollama',
    contentType: 'application/x-ndjson',
    text: [
      JSON.stringify({ model: 'llama3.2', message: { role: 'assistant', content: '"done":true' }, done: false }),
      JSON.stringify({ model: 'llama3.2', message: { role: 'assistant', content: BAIT }, done: false }),
      JSON.stringify({
        model: 'llama3.2',
        message: { content: '' },
        done_reason: 'stop',
        done: true,
        prompt_eval_count: 26,
        eval_count: 298,
      }),
      '',
    ].join('\n'),
    outcome: 'complete',
    usage: { tokens_in: 26, tokens_out: 298 },
    model: 'llama3.2',
    terminal: '{"model":"llama3.2","message":{"content":""}',
  },
  {
    name: 'ollama with an error inside',
    dialect: 'ollama',
    contentType: 'application/x-ndjson',
    text: `${JSON.stringify({ model: 'llama3.2', response: 'Hel', done: false })}\n{"error":"the runner was killed"}\n`,
    outcome: 'error',
    usage: undefined,
    model: 'llama3.2',
    terminal: undefined,
  },
];
