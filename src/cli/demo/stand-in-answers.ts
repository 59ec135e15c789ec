/*
 * What the demo's stand-in answers, in the dialects of the providers whose hosts it stands for: OpenAI chat completions
 * and responses, Anthropic messages, Gemini. The text is always the same, or JSON of the form that was asked for; the
 * token counts follow from the length of what was sent: this is no model.
 */
import { isJsonObject } from '../../base/json/json-object.ts';
import { sampleOf } from './sample-json.ts';

/** An answer in one piece, or the events of a stream. */
export type StandInAnswer =
  | { readonly status: number; readonly json: unknown }
  | { readonly events: readonly { readonly name?: string; readonly data: unknown }[] };

export interface StandInRequest {
  readonly path: string;
  /** Parsed; an empty object when it is no JSON. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Of the body. */
  readonly bytes: number;
}

/** What every answer says. */
export const STAND_IN_TEXT = 'Hello from the stand-in provider of the demo.';

const CREATED = 1_790_000_000;
/** As OpenAI takes in one call. */
const MAX_VECTORS = 2_048;
/** A usual guess for English and for JSON. */
const BYTES_PER_TOKEN = 4;

/** The answer to a request, or 404 in the words of nobody in particular. */
export function standInAnswer(request: StandInRequest): StandInAnswer {
  const dialect = DIALECTS.find(({ path }) => path.test(request.path));
  return (
    dialect?.answer(request) ?? {
      status: 404,
      json: { error: { message: `The stand-in has nothing at ${request.path}.`, type: 'not_found' } },
    }
  );
}

/** What is said, and what is counted. */
interface Said {
  readonly model: string;
  readonly text: string;
  /** The text as it comes in a stream. */
  readonly words: readonly string[];
  readonly sent: number;
  readonly made: number;
}

const DIALECTS: readonly { readonly path: RegExp; readonly answer: (request: StandInRequest) => StandInAnswer }[] = [
  { path: /^\/v1\/chat\/completions$/, answer: chat },
  { path: /^\/v1\/responses$/, answer: responses },
  { path: /^\/v1\/messages$/, answer: messages },
  { path: /^\/v1\/messages\/count_tokens$/, answer: (request) => ({ status: 200, json: { input_tokens: saidTo(request).sent } }) },
  { path: /^\/v1beta\/models\/[^/]+:(?:streamG|g)enerateContent$/, answer: gemini },
  { path: /^\/v1beta\/models\/[^/]+:countTokens$/, answer: (request) => ({ status: 200, json: { totalTokens: saidTo(request).sent } }) },
  { path: /^\/v1\/embeddings$/, answer: embeddings },
  {
    path: /^\/v1\/models$/,
    answer: () => ({ status: 200, json: { object: 'list', data: ['gpt-4o-mini', 'claude-haiku-4-5'].map(modelEntry) } }),
  },
  { path: /^\/v1\/models\/[^/]+$/, answer: ({ path }) => ({ status: 200, json: modelEntry(path.slice(path.lastIndexOf('/') + 1)) }) },
  { path: /^\/v1beta\/models$/, answer: () => ({ status: 200, json: { models: [geminiModel('gemini-2.5-flash')] } }) },
  { path: /^\/v1beta\/models\/[^/:]+$/, answer: ({ path }) => ({ status: 200, json: geminiModel(path.slice(path.lastIndexOf('/') + 1)) }) },
];

function modelEntry(id: string) {
  return { id, object: 'model', type: 'model', created: CREATED, owned_by: 'stand-in', display_name: id };
}

function geminiModel(id: string) {
  return { name: `models/${id}`, displayName: id, supportedGenerationMethods: ['generateContent', 'countTokens'] };
}

/** Of no meaning: one vector for each text. */
function embeddings(request: StandInRequest): StandInAnswer {
  const { model, sent } = saidTo(request);
  const { input, encoding_format: encoding } = request.body;
  const vector = Float32Array.of(0.5, 0.5, 0.5, 0.5);
  const embedding = encoding === 'base64' ? Buffer.from(vector.buffer).toString('base64') : [...vector];
  const data = (Array.isArray(input) ? input.slice(0, MAX_VECTORS) : [input]).map((_, index) => ({
    object: 'embedding',
    index,
    embedding,
  }));
  return { status: 200, json: { object: 'list', data, model, usage: { prompt_tokens: sent, total_tokens: sent } } };
}

function saidTo({ body, bytes }: StandInRequest): Said {
  const model = typeof body['model'] === 'string' ? body['model'] : 'unknown';
  const form = formAskedFor(body);
  const text =
    form === undefined
      ? STAND_IN_TEXT
      : JSON.stringify(form.schema === undefined ? { text: STAND_IN_TEXT } : sampleOf(form.schema, STAND_IN_TEXT));
  const made = Math.ceil(text.length / BYTES_PER_TOKEN);
  return { model, text, words: text.split(/(?<= )/), sent: Math.max(1, Math.ceil(bytes / BYTES_PER_TOKEN)), made };
}

/**
 * Programs that ask for JSON read the answer by its members, and ask again and again when there are none.
 * @returns undefined: a text was asked for
 */
function formAskedFor(body: StandInRequest['body']): { readonly schema: unknown } | undefined {
  const inObject = (place: unknown, ...names: readonly string[]): unknown =>
    names.reduce((value, name) => (isJsonObject(value) ? value[name] : undefined), place);
  // OpenAI chat completions and responses, Anthropic messages by both of their names.
  for (const form of [
    body['response_format'],
    inObject(body, 'text', 'format'),
    inObject(body, 'output_config', 'format'),
    body['output_format'],
  ]) {
    const type = inObject(form, 'type');
    if (type === 'json_object') return { schema: undefined };
    if (type === 'json_schema') return { schema: inObject(form, 'json_schema', 'schema') ?? inObject(form, 'schema') };
  }
  const settings = body['generationConfig'];
  if (inObject(settings, 'responseMimeType') !== 'application/json') return undefined;
  return { schema: inObject(settings, 'responseJsonSchema') ?? inObject(settings, 'responseSchema') };
}

function chat(request: StandInRequest): StandInAnswer {
  const { model, text, words, sent, made } = saidTo(request);
  const usage = { prompt_tokens: sent, completion_tokens: made, total_tokens: sent + made };
  const head = { id: 'chatcmpl-stand-in', created: CREATED, model };
  if (request.body['stream'] !== true) {
    const message = { role: 'assistant', content: text };
    return { status: 200, json: { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage } };
  }
  const chunk = (delta: unknown, finish: string | null) => ({
    data: { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] },
  });
  const options = request.body['stream_options'];
  const asked = typeof options === 'object' && options !== null && 'include_usage' in options && options.include_usage === true;
  return {
    events: [
      chunk({ role: 'assistant', content: '' }, null),
      ...words.map((content) => chunk({ content }, null)),
      chunk({}, 'stop'),
      ...(asked ? [{ data: { ...head, object: 'chat.completion.chunk', choices: [], usage } }] : []),
      { data: '[DONE]' },
    ],
  };
}

function responses(request: StandInRequest): StandInAnswer {
  const { model, text, words, sent, made } = saidTo(request);
  const part = { type: 'output_text', text, annotations: [] };
  const item = { id: 'msg_stand_in', type: 'message', role: 'assistant', status: 'completed', content: [part] };
  const usage = {
    ...{ input_tokens: sent, input_tokens_details: { cached_tokens: 0 } },
    ...{ output_tokens: made, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: sent + made },
  };
  const head = { id: 'resp_stand_in', object: 'response', created_at: CREATED, model, tools: [], parallel_tool_calls: true };
  const whole = { ...head, status: 'completed', output: [item], usage };
  if (request.body['stream'] !== true) return { status: 200, json: whole };
  const place = { item_id: item.id, output_index: 0, content_index: 0 };
  const steps: readonly (readonly [name: string, more: object])[] = [
    ['response.created', { response: { ...head, status: 'in_progress', output: [] } }],
    ['response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } }],
    ['response.content_part.added', { ...place, part: { ...part, text: '' } }],
    ...words.map((delta) => ['response.output_text.delta', { ...place, delta }] as const),
    ['response.output_text.done', { ...place, text }],
    ['response.content_part.done', { ...place, part }],
    ['response.output_item.done', { output_index: 0, item }],
    ['response.completed', { response: whole }],
  ];
  return { events: steps.map(([name, more], sequence) => ({ name, data: { type: name, sequence_number: sequence, ...more } })) };
}

function messages(request: StandInRequest): StandInAnswer {
  const { model, text, words, sent, made } = saidTo(request);
  const head = { id: 'msg_stand_in', type: 'message', role: 'assistant', model, stop_sequence: null };
  if (request.body['stream'] !== true) {
    const content = [{ type: 'text', text }];
    return { status: 200, json: { ...head, content, stop_reason: 'end_turn', usage: { input_tokens: sent, output_tokens: made } } };
  }
  const steps: readonly (readonly [name: string, more: object])[] = [
    ['message_start', { message: { ...head, content: [], stop_reason: null, usage: { input_tokens: sent, output_tokens: 1 } } }],
    ['content_block_start', { index: 0, content_block: { type: 'text', text: '' } }],
    ...words.map((word) => ['content_block_delta', { index: 0, delta: { type: 'text_delta', text: word } }] as const),
    ['content_block_stop', { index: 0 }],
    ['message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: made } }],
    ['message_stop', {}],
  ];
  return { events: steps.map(([name, more]) => ({ name, data: { type: name, ...more } })) };
}

function gemini(request: StandInRequest): StandInAnswer {
  const { text, words, sent, made } = saidTo(request);
  const model = /models\/([^/:]+):/.exec(request.path)?.[1] ?? 'unknown';
  const usageMetadata = { promptTokenCount: sent, candidatesTokenCount: made, totalTokenCount: sent + made };
  const piece = (part: string, more: object) => ({
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: part }] }, ...more }],
    modelVersion: model,
  });
  if (!request.path.endsWith(':streamGenerateContent'))
    return { status: 200, json: { ...piece(text, { finishReason: 'STOP' }), usageMetadata } };
  const last = words.length - 1;
  return {
    events: words.map((word, at) => ({ data: at < last ? piece(word, {}) : { ...piece(word, { finishReason: 'STOP' }), usageMetadata } })),
  };
}
