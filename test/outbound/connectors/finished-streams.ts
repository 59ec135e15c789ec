/**
 * Streams whose bodies end without the event with which their format ends a stream: behind the reason why the answer
 * ended, or before it. Ids and texts are made up.
 */
import { awsChunk, awsEvent } from '../../support/aws-events.ts';

export interface FinishedStream {
  readonly name: string;
  readonly dialect: string;
  readonly contentType: string;
  readonly bytes: Buffer;
  /** Of a body that ends here. */
  readonly outcome: 'open' | 'complete' | 'error';
  readonly usage?: Readonly<Record<string, number>>;
}

const SSE = 'text/event-stream';
const NDJSON = 'application/x-ndjson';
const AWS = 'application/vnd.amazon.eventstream';

const sse = (...events: readonly unknown[]): Buffer => Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
const named = (...events: readonly (readonly [string, object])[]): Buffer =>
  Buffer.from(events.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join(''));
const lines = (...events: readonly unknown[]): Buffer => Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(''));

/** One choice of a chunk. */
const choice = (finish_reason: unknown, index = 0, delta: object = { content: 'Hi "finish_reason":"stop"' }): object => ({
  index,
  delta,
  finish_reason,
});
const chunk = (...choices: readonly object[]): object => ({ id: 'c', object: 'chat.completion.chunk', model: 'm', choices });
const REPORT = { id: 'c', model: 'm', choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } };
const REPORTED = { tokens_in: 9, tokens_out: 4 };
const tool = (at: number): object => ({ tool_calls: [{ index: at, function: { name: 'f', arguments: '{"index":3}' } }] });

const CLAUDE = [
  ['message_start', { type: 'message_start', message: { model: 'm', stop_reason: null, usage: { input_tokens: 9, output_tokens: 1 } } }],
  ['content_block_delta', { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '"stop_reason":"end_turn"' } }],
  ['message_delta', { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 4 } }],
] as const;
const candidate = (more: object = {}): object => ({ content: { parts: [{ text: 'Hi' }] }, ...more });
const GEMINI_USAGE = { usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 4 } };

type Row = readonly [
  name: string,
  dialect: string,
  contentType: string,
  bytes: Buffer,
  outcome: FinishedStream['outcome'],
  usage?: FinishedStream['usage'],
];

const chat = (name: string, outcome: FinishedStream['outcome'], bytes: Buffer, usage?: FinishedStream['usage']): Row => [
  name,
  'openai_chat',
  SSE,
  bytes,
  outcome,
  usage,
];
const cutBehind = (events: Buffer, begun: string): Buffer => Buffer.concat([events, Buffer.from(begun)]);

const CHATS: readonly Row[] = [
  ...['stop', 'length', 'tool_calls', 'content_filter', 'function_call', 'model_length'].map((reason) =>
    chat(`chat, ${reason}`, 'complete', sse(chunk(choice(null)), chunk(choice(reason, 0, {})))),
  ),
  chat('chat, usage behind the reason', 'complete', sse(chunk(choice(null)), chunk(choice('stop')), REPORT), REPORTED),
  chat('chat, usage beside the reason', 'complete', sse(chunk(choice(null)), { ...REPORT, choices: [choice('stop')] }), REPORTED),
  chat(
    'chat, usage behind the reason beside a choice that says nothing more',
    'complete',
    sse(chunk(choice('stop')), { ...REPORT, choices: [choice(null, 0, { content: '' })] }),
    REPORTED,
  ),
  chat(
    'chat, a tool of a higher index',
    'complete',
    sse(chunk(choice(null, 0, tool(0))), chunk(choice(null, 0, tool(1))), chunk(choice('tool_calls'))),
  ),
  chat(
    'chat, the first event without choices',
    'complete',
    sse({ choices: [], prompt_filter_results: [] }, chunk(choice(null)), chunk(choice('stop'))),
  ),
  chat(
    'chat, without an index',
    'complete',
    sse({ choices: [{ delta: { content: 'x' } }] }, { choices: [{ delta: {}, finish_reason: 'stop' }] }),
  ),
  chat('chat, the last event without its empty line', 'complete', sse(chunk(choice(null)), chunk(choice('stop'))).subarray(0, -1)),
  chat('chat, the last event without its line end', 'complete', sse(chunk(choice(null)), chunk(choice('stop'))).subarray(0, -2)),
  chat('chat, a comment behind the reason', 'complete', cutBehind(sse(chunk(choice('stop'))), ': bye')),
  chat(
    'chat, two choices',
    'complete',
    sse(chunk(choice(null, 0)), chunk(choice(null, 1)), chunk(choice('stop', 1)), chunk(choice('length', 0)), REPORT),
    REPORTED,
  ),
  chat(
    'chat, two choices in one event',
    'complete',
    sse(chunk(choice(null, 0), choice(null, 1)), chunk(choice('stop', 0), choice('stop', 1))),
  ),
  chat(
    'chat, two choices, one of which has not ended',
    'open',
    sse(chunk(choice(null, 0)), chunk(choice(null, 1)), chunk(choice('stop', 0)), REPORT),
    REPORTED,
  ),
  chat(
    'chat, two choices, the first of which has not ended',
    'open',
    sse(REPORT, chunk(choice(null, 0)), chunk(choice(null, 1)), chunk(choice('stop', 1))),
    REPORTED,
  ),
  chat('chat, a choice that begins behind the end of another', 'open', sse(chunk(choice('stop', 0)), chunk(choice(null, 1)))),
  chat('chat, no reason', 'open', sse(chunk(choice(null)), REPORT), REPORTED),
  chat(
    'chat, reasons that are none',
    'open',
    sse(chunk(choice('')), chunk(choice(false)), chunk({ index: 0, delta: {} }), chunk(choice(undefined))),
  ),
  chat('chat, nothing at all', 'open', Buffer.alloc(0)),
  chat('chat, usage alone', 'open', sse(REPORT), REPORTED),
  chat('chat, cut inside of the reason', 'open', sse(chunk(choice(null)), chunk(choice('stop'))).subarray(0, -8)),
  chat(
    'chat, cut inside of what is behind the reason',
    'open',
    cutBehind(sse(chunk(choice('stop'))), 'data: {"choices":[],"usage":{"prompt_tok'),
  ),
  chat('chat, cut inside of a field behind the reason', 'open', cutBehind(sse(chunk(choice('stop'))), 'dat')),
  chat('chat, cut behind the name of an event', 'open', cutBehind(sse(chunk(choice('stop'))), 'event: usage\n').subarray(0, -1)),
  chat('chat, an error behind the reason', 'error', sse(chunk(choice('stop')), { error: { message: 'no' } })),
  chat('chat, an error with a reason', 'error', sse({ ...chunk(choice('error')), error: { code: 502 } })),
  [
    'completions',
    'openai_completions',
    SSE,
    sse({ choices: [{ index: 0, text: 'a', finish_reason: null }] }, { choices: [{ index: 0, text: '', finish_reason: 'length' }] }),
    'complete',
  ],
  [
    'completions, one of two prompts',
    'openai_completions',
    SSE,
    sse({ choices: [{ index: 1, text: 'a' }] }, { choices: [{ index: 0, text: '', finish_reason: 'stop' }] }),
    'open',
  ],
  ...[
    'azure_chat',
    'xai_chat',
    'perplexity_chat',
    'deepseek_chat',
    'groq_chat',
    'mistral_chat',
    'mistral_agents',
    'vertex_mistral',
    'azure_completions',
    'openai_engine_completions',
  ].map(
    (dialect): Row => [
      `${dialect}, as OpenAI has it`,
      dialect,
      SSE,
      sse(chunk(choice(null)), chunk(choice('stop')), REPORT),
      'complete',
      REPORTED,
    ],
  ),
];

const OTHERS: readonly Row[] = [
  ['Anthropic, behind its stop reason', 'anthropic_messages', SSE, named(...CLAUDE), 'complete', REPORTED],
  ['Anthropic, before it', 'anthropic_messages', SSE, named(...CLAUDE.slice(0, 2)), 'open', { tokens_in: 9, tokens_out: 1 }],
  ['Anthropic, without names of events', 'anthropic_messages', SSE, sse(...CLAUDE.map(([, data]) => data)), 'complete', REPORTED],
  ['Anthropic on Vertex', 'vertex_anthropic', SSE, named(...CLAUDE), 'complete', REPORTED],
  [
    'Gemini, which has no last event',
    'gemini_generate',
    SSE,
    sse({ candidates: [candidate({ finishReason: 'STOP' })], ...GEMINI_USAGE }),
    'complete',
    REPORTED,
  ],
  [
    'Gemini, a list without its bracket',
    'gemini_generate',
    'application/json',
    Buffer.from(
      `[${JSON.stringify({ candidates: [candidate()] })}\n,${JSON.stringify({ candidates: [candidate({ finishReason: 'STOP' })], ...GEMINI_USAGE })}\n`,
    ),
    'complete',
    REPORTED,
  ],
  [
    'Gemini, a list of a prompt that was refused',
    'gemini_generate',
    'application/json',
    Buffer.from(`[${JSON.stringify({ promptFeedback: { blockReason: 'SAFETY' } })}`),
    'complete',
  ],
  [
    'Gemini, a list without bracket and reason',
    'gemini_generate',
    'application/json',
    Buffer.from(`[${JSON.stringify({ candidates: [candidate()], ...GEMINI_USAGE })}\n`),
    'open',
    REPORTED,
  ],
  [
    'Gemini, a list, one of two candidates',
    'gemini_generate',
    'application/json',
    Buffer.from(`[${JSON.stringify({ candidates: [candidate({ index: 0 }), candidate({ finishReason: 'STOP', index: 1 })] })}\n`),
    'open',
  ],
  [
    'Gemini, a list that is cut behind its reason',
    'gemini_generate',
    'application/json',
    Buffer.from(`[${JSON.stringify({ candidates: [candidate({ finishReason: 'STOP' })] })}\n,{"usageMeta`),
    'open',
  ],
  [
    'Gemini interactions, by the older name',
    'gemini_interactions',
    SSE,
    named(
      ['interaction.start', { event_type: 'interaction.start' }],
      [
        'interaction.complete',
        { event_type: 'interaction.complete', interaction: { usage: { total_input_tokens: 9, total_output_tokens: 4 } } },
      ],
    ),
    'complete',
    REPORTED,
  ],
  [
    'Gemini interactions, before it',
    'gemini_interactions',
    SSE,
    named(['content.delta', { event_type: 'content.delta', delta: { text: 'Hi' } }]),
    'open',
  ],
  [
    'Cohere, without the name of its last event',
    'cohere_chat',
    SSE,
    sse({ delta: { message: {} } }, { delta: { finish_reason: 'COMPLETE', usage: { tokens: { input_tokens: 9, output_tokens: 4 } } } }),
    'complete',
    REPORTED,
  ],
  ['Cohere, before its reason', 'cohere_chat', SSE, sse({ type: 'content-delta', delta: { message: { content: { text: 'x' } } } }), 'open'],
  [
    'Cohere v1, without the name of its last event',
    'cohere_chat_v1',
    NDJSON,
    lines({ is_finished: false, text: 'x' }, { is_finished: true, finish_reason: 'MAX_TOKENS' }),
    'complete',
  ],
  [
    'Cohere v1, before its reason',
    'cohere_chat_v1',
    NDJSON,
    lines({ is_finished: false, event_type: 'text-generation', text: 'x' }),
    'open',
  ],
  [
    'Cohere v1, cut inside of a line behind its reason',
    'cohere_chat_v1',
    NDJSON,
    cutBehind(lines({ finish_reason: 'COMPLETE' }), '{"event_ty'),
    'open',
  ],
  [
    'Ollama, a reason without `done`',
    'ollama',
    NDJSON,
    lines({ response: 'x', done: false }, { done_reason: 'stop', prompt_eval_count: 9, eval_count: 4 }),
    'complete',
    REPORTED,
  ],
  ['Ollama, before its reason', 'ollama', NDJSON, lines({ response: 'x', done: false }), 'open'],
  [
    'a run, behind its end',
    'openai_runs',
    SSE,
    named(
      ['thread.message.delta', { object: 'thread.message.delta' }],
      ['thread.run.completed', { object: 'thread.run', status: 'completed', usage: { prompt_tokens: 9, completion_tokens: 4 } }],
    ),
    'complete',
    REPORTED,
  ],
  [
    'a run that waits for a tool',
    'openai_runs',
    SSE,
    named(['thread.run.requires_action', { object: 'thread.run', status: 'requires_action' }]),
    'complete',
  ],
  [
    'a run, behind a step',
    'openai_runs',
    SSE,
    named(['thread.run.step.completed', { object: 'thread.run.step', usage: { prompt_tokens: 9, completion_tokens: 4 } }]),
    'open',
    REPORTED,
  ],
  [
    'Bedrock Converse, behind messageStop',
    'bedrock_converse',
    AWS,
    Buffer.concat([awsEvent('contentBlockDelta', { delta: { text: 'Hi' } }), awsEvent('messageStop', { stopReason: 'end_turn' })]),
    'complete',
  ],
  [
    'Bedrock Converse, inside of what is behind it',
    'bedrock_converse',
    AWS,
    Buffer.concat([awsEvent('messageStop', { stopReason: 'end_turn' }), awsEvent('metadata', { usage: {} }).subarray(0, 40)]),
    'open',
  ],
  ['Bedrock Converse, before it', 'bedrock_converse', AWS, awsEvent('contentBlockDelta', { delta: { text: 'Hi' } }), 'open'],
  [
    'Bedrock, Claude behind its stop reason',
    'bedrock_anthropic',
    AWS,
    Buffer.concat(CLAUDE.map(([, data]) => awsChunk(data))),
    'complete',
    REPORTED,
  ],
  [
    'Bedrock, Claude before it',
    'bedrock_anthropic',
    AWS,
    Buffer.concat(CLAUDE.slice(0, 2).map(([, data]) => awsChunk(data))),
    'open',
    { tokens_in: 9, tokens_out: 1 },
  ],
  ...Object.entries({
    Llama: { generation: '', stop_reason: 'stop' },
    Titan: { outputText: '', completionReason: 'FINISH' },
    Nova: { messageStop: { stopReason: 'end_turn' } },
    Cohere: { is_finished: true, finish_reason: 'COMPLETE' },
    Mistral: { outputs: [{ text: '', stop_reason: 'stop' }] },
    'an OpenAI model': { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  }).map(
    ([vendor, data]): Row => [
      `Bedrock, ${vendor}`,
      'bedrock_invoke',
      AWS,
      Buffer.concat([awsChunk({ generation: 'x', stop_reason: null }), awsChunk(data)]),
      'complete',
    ],
  ),
  ['Bedrock, a vendor that has not ended', 'bedrock_invoke', AWS, awsChunk({ generation: 'x', stop_reason: null }), 'open'],
  [
    'responses, which end by an event alone',
    'openai_responses',
    SSE,
    named(
      ['response.output_text.done', { type: 'response.output_text.done' }],
      ['response.output_item.done', { type: 'response.output_item.done', item: { status: 'completed' } }],
    ),
    'open',
  ],
];

export const FINISHED: readonly FinishedStream[] = [...CHATS, ...OTHERS].map(([name, dialect, contentType, bytes, outcome, usage]) => ({
  name,
  dialect,
  contentType,
  bytes,
  outcome,
  ...(usage ? { usage } : {}),
}));
