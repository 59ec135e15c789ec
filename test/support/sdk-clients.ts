/*
 * The official SDKs as a user's program makes them, in this process, by each of the ways that lead through a gateway:
 * HTTPS_PROXY (the dispatcher that docs/examples/node20-proxy.mjs sets) or a base URL. One face for all of them, so
 * that a test can ask the same of each.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import { Mistral } from '@mistralai/mistralai';
import { HTTPClient } from '@mistralai/mistralai/lib/http.js';
import { CohereClientV2 } from 'cohere-ai';
import OpenAI, { AzureOpenAI } from 'openai';
import { EnvHttpProxyAgent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import type { TestGateway } from './gateway.ts';
import type { HasTeardown } from './temp-dir.ts';

export const SDK_DOORS = ['connect_proxy', 'sdk_redirect'] as const;
export type SdkDoor = (typeof SDK_DOORS)[number];

/** What an SDK tells its user of one call. */
export interface SdkAnswer {
  readonly text: string;
  readonly model: string | undefined;
  /** As the SDK reports it; undefined when it does not. */
  readonly usage: { readonly in: number | undefined; readonly out: number | undefined } | undefined;
}

export interface SdkAsk {
  readonly prompt?: string;
  readonly model?: string;
  readonly maxTokens?: number;
  readonly signal?: AbortSignal;
  /** Called with each piece of text of a stream. */
  readonly onText?: (piece: string) => void;
}

export interface Sdk {
  readonly provider: string;
  /** A model that the catalogue has a price for. */
  readonly model: string;
  plain(ask?: SdkAsk): Promise<SdkAnswer>;
  stream(ask?: SdkAsk): Promise<SdkAnswer>;
}

export interface SdkOptions {
  /** The key that the program has. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** How often the SDK tries again by itself; default: as it comes. */
  readonly retries?: number;
}

const AZURE_HOST = 'example-resource.openai.azure.com';
const DEFAULT_KEY = 'key-of-the-program';

/**
 * Until the end of the test every https request of this process goes through the gateway, as with HTTPS_PROXY and
 * NODE_EXTRA_CA_CERTS.
 */
export function useProxy(t: HasTeardown, gw: Pick<TestGateway, 'url' | 'caPem'>): void {
  const before = getGlobalDispatcher();
  const agent = new EnvHttpProxyAgent({ httpsProxy: gw.url, httpProxy: '', noProxy: '127.0.0.1', requestTls: { ca: gw.caPem } });
  setGlobalDispatcher(agent);
  t.teardown(async () => {
    setGlobalDispatcher(before);
    await agent.destroy();
  });
}

/** Answers of gateways as they come over the wire of this process, SDKs untouched. */
export interface AnswerWatch {
  /** Statuses and record ids since the last look. */
  take(): readonly { readonly status: number; readonly recordId: string; readonly headers: Readonly<Record<string, string>> }[];
}

/** Notes what every gateway answers (https://undici.nodejs.org/#/docs/api/DiagnosticsChannel). */
export function watchAnswers(t: HasTeardown): AnswerWatch {
  let seen: { status: number; recordId: string; headers: Record<string, string> }[] = [];
  const note = (message: unknown): void => {
    const { response } = message as { response: { statusCode: number; headers: readonly Buffer[] } };
    const headers: Record<string, string> = {};
    for (let i = 0; i + 1 < response.headers.length; i += 2)
      headers[String(response.headers[i]).toLowerCase()] = String(response.headers[i + 1]);
    const recordId = headers['x-gw-record-id'];
    if (recordId !== undefined) seen.push({ status: response.statusCode, recordId, headers });
  };
  subscribe('undici:request:headers', note);
  t.teardown(() => void unsubscribe('undici:request:headers', note));
  return {
    take: () => {
      const taken = seen;
      seen = [];
      return taken;
    },
  };
}

/** All SDKs that speak to the mock, made for one door. `useProxy` must be in force for `connect_proxy`. */
export function sdkClients(gw: Pick<TestGateway, 'url'>, door: SdkDoor, options: SdkOptions = {}): Readonly<Record<string, Sdk>> {
  return {
    openai: openaiSdk(new OpenAI({ ...stainless(gw, door, '/openai/v1', options) }), 'openai', 'gpt-4o-2024-05-13'),
    azure: openaiSdk(azureClient(gw, door, options), 'azure_openai', 'gpt-4o-2024-05-13'),
    anthropic: anthropicSdk(new Anthropic(stainless(gw, door, '/anthropic', options))),
    gemini: geminiSdk(gw, door, options),
    mistral: mistralSdk(gw, door, options),
    cohere: cohereSdk(gw, door, options),
  };
}

/** Options that the SDKs of OpenAI and Anthropic share. */
export function stainless(
  gw: Pick<TestGateway, 'url'>,
  door: SdkDoor,
  path: string,
  { key = DEFAULT_KEY, headers = {}, retries }: SdkOptions = {},
) {
  return {
    apiKey: key,
    defaultHeaders: { ...headers },
    ...(door === 'sdk_redirect' ? { baseURL: `${gw.url}/proxy${path}` } : {}),
    ...(retries === undefined ? {} : { maxRetries: retries }),
  };
}

function azureClient(gw: Pick<TestGateway, 'url'>, door: SdkDoor, { key = DEFAULT_KEY, headers = {}, retries }: SdkOptions): AzureOpenAI {
  const redirected = door === 'sdk_redirect';
  return new AzureOpenAI({
    apiKey: key,
    apiVersion: '2024-10-21',
    endpoint: redirected ? gw.url : `https://${AZURE_HOST}`,
    defaultHeaders: { ...headers, ...(redirected ? { 'X-GW-Target-Host': AZURE_HOST } : {}) },
    ...(retries === undefined ? {} : { maxRetries: retries }),
  });
}

function messagesOf({ prompt = 'hello' }: SdkAsk): { role: 'user'; content: string }[] {
  return [{ role: 'user', content: prompt }];
}

function openaiSdk(client: OpenAI, provider: string, model: string): Sdk {
  const body = (ask: SdkAsk) => ({
    model: ask.model ?? model,
    messages: messagesOf(ask),
    ...(ask.maxTokens === undefined ? {} : { max_tokens: ask.maxTokens }),
  });
  const usageOf = (usage: OpenAI.CompletionUsage | null | undefined) => usage && { in: usage.prompt_tokens, out: usage.completion_tokens };
  return {
    provider,
    model,
    plain: async (ask = {}) => {
      const answer = await client.chat.completions.create(body(ask), { signal: ask.signal });
      return { text: answer.choices[0]?.message.content ?? '', model: answer.model, usage: usageOf(answer.usage) ?? undefined };
    },
    stream: async (ask = {}) => {
      let text = '';
      let last: OpenAI.ChatCompletionChunk | undefined;
      const asked = { ...body(ask), stream: true as const, stream_options: { include_usage: true } };
      for await (const chunk of await client.chat.completions.create(asked, { signal: ask.signal })) {
        last = chunk;
        text += told(ask, chunk.choices[0]?.delta.content);
      }
      return { text, model: last?.model, usage: usageOf(last?.usage) ?? undefined };
    },
  };
}

function anthropicSdk(client: Anthropic): Sdk {
  const model = 'claude-3-5-haiku-20241022';
  const body = (ask: SdkAsk) => ({ model: ask.model ?? model, max_tokens: ask.maxTokens ?? 100, messages: messagesOf(ask) });
  const answerOf = ({ content, model: named, usage }: Anthropic.Message): SdkAnswer => ({
    text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
    model: named,
    usage: { in: usage.input_tokens, out: usage.output_tokens },
  });
  return {
    provider: 'anthropic',
    model,
    plain: async (ask = {}) => answerOf(await client.messages.create(body(ask), { signal: ask.signal })),
    stream: async (ask = {}) => {
      const stream = client.messages.stream(body(ask), { signal: ask.signal });
      stream.on('text', (piece) => void told(ask, piece));
      return answerOf(await stream.finalMessage());
    },
  };
}

function geminiSdk(gw: Pick<TestGateway, 'url'>, door: SdkDoor, { key = DEFAULT_KEY, headers = {}, retries }: SdkOptions): Sdk {
  const model = 'gemini-2.5-flash';
  const client = new GoogleGenAI({
    apiKey: key,
    apiVersion: 'v1beta',
    httpOptions: {
      headers: { ...headers },
      ...(door === 'sdk_redirect' ? { baseUrl: `${gw.url}/proxy/gemini` } : {}),
      ...(retries === undefined ? {} : { retryOptions: { attempts: retries + 1 } }),
    },
  });
  const body = ({ prompt = 'hello', maxTokens, signal, ...ask }: SdkAsk) => ({
    model: ask.model ?? model,
    contents: prompt,
    config: { ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }), ...(signal ? { abortSignal: signal } : {}) },
  });
  type Answer = Awaited<ReturnType<typeof client.models.generateContent>>;
  const usageOf = ({ usageMetadata: usage }: Answer) => usage && { in: usage.promptTokenCount, out: usage.candidatesTokenCount };
  return {
    provider: 'gemini',
    model,
    plain: async (ask = {}) => {
      const answer = await client.models.generateContent(body(ask));
      return { text: answer.text ?? '', model: undefined, usage: usageOf(answer) };
    },
    stream: async (ask = {}) => {
      let text = '';
      let usage: SdkAnswer['usage'];
      for await (const chunk of await client.models.generateContentStream(body(ask))) {
        text += told(ask, chunk.text);
        usage = usageOf(chunk) ?? usage;
      }
      return { text, model: undefined, usage };
    },
  };
}

function mistralSdk(gw: Pick<TestGateway, 'url'>, door: SdkDoor, { key = DEFAULT_KEY, headers = {} }: SdkOptions): Sdk {
  const model = 'mistral-small-latest';
  const httpClient = new HTTPClient();
  httpClient.addHook('beforeRequest', (request) => {
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    return request;
  });
  const client = new Mistral({
    apiKey: key,
    httpClient,
    ...(door === 'sdk_redirect' ? { serverURL: `${gw.url}/proxy/mistral` } : {}),
  });
  const body = (ask: SdkAsk) => ({
    model: ask.model ?? model,
    messages: messagesOf(ask),
    ...(ask.maxTokens === undefined ? {} : { maxTokens: ask.maxTokens }),
  });
  const options = ({ signal }: SdkAsk) => (signal ? { fetchOptions: { signal } } : {});
  return {
    provider: 'mistral',
    model,
    plain: async (ask = {}) => {
      const { choices, model: named, usage } = await client.chat.complete(body(ask), options(ask));
      const content = choices[0]?.message?.content;
      return {
        text: typeof content === 'string' ? content : '',
        model: named,
        usage: { in: usage.promptTokens, out: usage.completionTokens },
      };
    },
    stream: async (ask = {}) => {
      let text = '';
      let usage: SdkAnswer['usage'];
      for await (const { data } of await client.chat.stream(body(ask), options(ask))) {
        const content = data.choices[0]?.delta.content;
        text += told(ask, typeof content === 'string' ? content : '');
        if (data.usage) usage = { in: data.usage.promptTokens, out: data.usage.completionTokens };
        // Its copies of the signal may be collected as garbage on Node 20, and then tell the connection nothing.
        ask.signal?.throwIfAborted();
      }
      return { text, model: undefined, usage };
    },
  };
}

function cohereSdk(gw: Pick<TestGateway, 'url'>, door: SdkDoor, { key = DEFAULT_KEY, headers = {}, retries }: SdkOptions): Sdk {
  const model = 'command-r7b-12-2024';
  const client = new CohereClientV2({
    token: key,
    headers: { ...headers },
    ...(door === 'sdk_redirect' ? { baseUrl: `${gw.url}/proxy/cohere` } : {}),
    ...(retries === undefined ? {} : { maxRetries: retries }),
  });
  const body = (ask: SdkAsk) => ({
    model: ask.model ?? model,
    messages: messagesOf(ask),
    ...(ask.maxTokens === undefined ? {} : { maxTokens: ask.maxTokens }),
  });
  const options = ({ signal }: SdkAsk) => (signal ? { abortSignal: signal } : {});
  const usageOf = (usage: { tokens?: { inputTokens?: number; outputTokens?: number } } | undefined): SdkAnswer['usage'] =>
    usage?.tokens && { in: usage.tokens.inputTokens, out: usage.tokens.outputTokens };
  return {
    provider: 'cohere',
    model,
    plain: async (ask = {}) => {
      const { message, usage } = await client.chat(body(ask), options(ask));
      const first = message.content?.[0];
      return { text: first?.type === 'text' ? first.text : '', model: undefined, usage: usageOf(usage) };
    },
    stream: async (ask = {}) => {
      let text = '';
      let usage: SdkAnswer['usage'];
      for await (const event of await client.chatStream(body(ask), options(ask))) {
        if (event.type === 'content-delta') text += told(ask, event.delta?.message?.content?.text);
        if (event.type === 'message-end') usage = usageOf(event.delta?.usage);
      }
      return { text, model: undefined, usage };
    },
  };
}

function told({ onText }: SdkAsk, piece: string | null | undefined): string {
  if (piece) onText?.(piece);
  return piece ?? '';
}
