// Streams that say words and do not end by themselves, in each provider's form: for tests of what ends them.
import type { UpstreamHandler } from './tls-upstream.ts';

export interface EndlessForm {
  readonly name: string;
  readonly dialect: string;
  readonly host: string;
  readonly path: string;
  /**
   * A call that states 20 tokens of output, which the upstream does not heed; the model is in no price list: 10.00 /
   * 30.00.
   */
  readonly body: object;
  readonly contentType: string;
  /** What comes before the words. */
  readonly head: string;
  word(at: number): string;
}

const SSE = 'text/event-stream';
const sse = (data: object, event?: string): string => `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
const messages = [{ role: 'user', content: 'Say something.' }];
const model = 'unlisted-model';
const text = (at: number): string => (at % 7 === 3 ? ' Grüße' : ' word');
const stream = true;

const chatWord = (at: number): string =>
  sse({ id: 'c', model, choices: [{ index: 0, delta: { content: text(at) }, finish_reason: null }] });
const geminiChunk = (at: number, more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts: [{ text: text(at) }] }, index: 0 }],
  usageMetadata: { promptTokenCount: 4, ...more },
  modelVersion: model,
});

export const ENDLESS: readonly EndlessForm[] = [
  {
    name: 'OpenAI chat',
    dialect: 'openai_chat',
    host: 'api.openai.com',
    path: '/v1/chat/completions',
    body: { model, messages, max_tokens: 20, stream },
    contentType: SSE,
    head: ': a comment\n\n',
    word: chatWord,
  },
  {
    name: 'OpenAI completions',
    dialect: 'openai_completions',
    host: 'api.openai.com',
    path: '/v1/completions',
    body: { model, prompt: 'Say something.', max_tokens: 20, stream },
    contentType: SSE,
    head: '',
    word: (at) => sse({ id: 'c', model, choices: [{ index: 0, text: text(at) }] }),
  },
  {
    name: 'OpenAI responses',
    dialect: 'openai_responses',
    host: 'api.openai.com',
    path: '/v1/responses',
    body: { model, input: 'Say something.', max_output_tokens: 20, stream },
    contentType: SSE,
    head: sse({ type: 'response.created', response: { id: 'r', model, status: 'in_progress', usage: null } }, 'response.created'),
    word: (at) => sse({ type: 'response.output_text.delta', item_id: 'i', delta: text(at) }, 'response.output_text.delta'),
  },
  {
    name: 'Anthropic messages',
    dialect: 'anthropic_messages',
    host: 'api.anthropic.com',
    path: '/v1/messages',
    body: { model, messages, max_tokens: 20, stream },
    contentType: SSE,
    head: sse({ type: 'message_start', message: { id: 'm', model, usage: { input_tokens: 4, output_tokens: 1 } } }, 'message_start'),
    word: (at) => sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: text(at) } }, 'content_block_delta'),
  },
  {
    name: 'Gemini',
    dialect: 'gemini_generate',
    host: 'generativelanguage.googleapis.com',
    path: `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
    body: { contents: [{ parts: [{ text: 'Say something.' }] }], generationConfig: { maxOutputTokens: 20 } },
    contentType: SSE,
    head: '',
    word: (at) => `data: ${JSON.stringify(geminiChunk(at, { candidatesTokenCount: at + 1 }))}\r\n\r\n`,
  },
  {
    name: 'Gemini as one JSON array',
    dialect: 'gemini_generate',
    host: 'generativelanguage.googleapis.com',
    path: `/v1beta/models/${model}:streamGenerateContent`,
    body: { contents: [{ parts: [{ text: 'Say something.' }] }], generationConfig: { maxOutputTokens: 20 } },
    contentType: 'application/json; charset=UTF-8',
    head: '[',
    word: (at) => `${at === 0 ? '' : ',\r\n'}${JSON.stringify(geminiChunk(at), null, 2)}`,
  },
  {
    name: 'Gemini interactions',
    dialect: 'gemini_interactions',
    host: 'generativelanguage.googleapis.com',
    path: '/v1beta/interactions',
    body: { model, input: 'Say something.', generation_config: { max_output_tokens: 20 }, stream },
    contentType: SSE,
    head: '',
    word: (at) => sse({ event_type: 'step.delta', delta: { type: 'text', text: text(at) } }, 'step.delta'),
  },
  {
    name: 'Cohere v2',
    dialect: 'cohere_chat',
    host: 'api.cohere.com',
    path: '/v2/chat',
    body: { model, messages, max_tokens: 20, stream },
    contentType: SSE,
    head: sse({ type: 'message-start', id: 'm', delta: { message: { role: 'assistant' } } }, 'message-start'),
    word: (at) => sse({ type: 'content-delta', index: 0, delta: { message: { content: { text: text(at) } } } }, 'content-delta'),
  },
  {
    name: 'Cohere v1',
    dialect: 'cohere_chat_v1',
    host: 'api.cohere.com',
    path: '/v1/chat',
    body: { model, message: 'Say something.', max_tokens: 20, stream },
    contentType: 'application/stream+json',
    head: `${JSON.stringify({ event_type: 'stream-start' })}\n`,
    word: (at) => `${JSON.stringify({ event_type: 'text-generation', text: text(at) })}\n`,
  },
  {
    name: 'Cohere generate',
    dialect: 'cohere_generate',
    host: 'api.cohere.com',
    path: '/v1/generate',
    body: { model, prompt: 'Say something.', max_tokens: 20, stream },
    contentType: 'application/stream+json',
    head: '',
    word: (at) => `${JSON.stringify({ event_type: 'text-generation', text: text(at) })}\n`,
  },
  {
    name: 'Mistral chat',
    dialect: 'mistral_chat',
    host: 'api.mistral.ai',
    path: '/v1/chat/completions',
    body: { model, messages, max_tokens: 20, stream },
    contentType: SSE,
    head: '',
    word: chatWord,
  },
  {
    name: 'Mistral conversations',
    dialect: 'mistral_conversations',
    host: 'api.mistral.ai',
    path: '/v1/conversations',
    body: { model, inputs: 'Say something.', completion_args: { max_tokens: 20 }, stream },
    contentType: SSE,
    head: sse({ type: 'conversation.response.started', conversation_id: 'c' }, 'conversation.response.started'),
    word: (at) => sse({ type: 'message.output.delta', id: 'o', content: text(at) }, 'message.output.delta'),
  },
  {
    name: 'Ollama',
    dialect: 'ollama',
    host: 'ollama.com',
    path: '/api/chat',
    body: { model, messages, options: { num_predict: 20 } },
    contentType: 'application/x-ndjson',
    head: '',
    word: (at) => `${JSON.stringify({ model, message: { role: 'assistant', content: text(at) }, done: false })}\n`,
  },
];

/** The beginning of what a form says, as long as any test needs it. */
export function endlessText({ head, word }: EndlessForm, words = MOST_WORDS): string {
  let said = head;
  for (let at = 0; at < words; at++) said += word(at);
  return said;
}

const MOST_WORDS = 300;

export interface EndlessUpstream {
  readonly handler: UpstreamHandler;
  readonly begun: number;
  /** Streams that were stopped by who asked for them. */
  readonly stopped: number;
  /** Streams that came to what tests take for endless. */
  readonly ended: number;
}

/**
 * Answers every form of {@link ENDLESS} in pieces that heed no event.
 * @param pause called before each piece; the next one waits for it
 */
export function endlessUpstream(pause: () => Promise<unknown> = nextTurn, pieceBytes = 61, words = MOST_WORDS): EndlessUpstream {
  let begun = 0;
  let stopped = 0;
  let ended = 0;
  return {
    get begun() {
      return begun;
    },
    get stopped() {
      return stopped;
    },
    get ended() {
      return ended;
    },
    handler: (request, response, body) => {
      const form = ENDLESS.find(({ host, path }) => request.headers.host === host && sameCall(request.url ?? '', path));
      if (form === undefined) return void response.writeHead(404).end();
      begun++;
      response.on('close', () => (response.writableEnded ? ended++ : stopped++));
      void body.then(async () => {
        response.writeHead(200, { 'content-type': form.contentType });
        const bytes = Buffer.from(endlessText(form, words));
        for (let at = 0; at < bytes.length && !response.destroyed; at += pieceBytes) {
          response.write(bytes.subarray(at, at + pieceBytes));
          await pause();
        }
        if (!response.destroyed) response.end();
      });
    },
  };
}

/** Whatever the version of the interface. */
function sameCall(url: string, path: string): boolean {
  return url.replace(/^\/v1beta\//, '/v1/') === path.replace(/^\/v1beta\//, '/v1/');
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
