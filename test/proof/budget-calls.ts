import type { ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session } from '../support/raw-clients.ts';
import { webSocketOn } from '../support/websockets.ts';
import type { Charge, Fate } from './charging-upstream.ts';
import { CleanUp } from './checks.ts';
import { AI_HOST } from './paced-upstream.ts';
import type { Seeded } from './seeded.ts';

/** `socket`: one response on a metered WebSocket. */
export const MONEY_DOORS = ['direct', 'redirect', 'connect-h1', 'connect-h2', 'socket'] as const;
export type MoneyDoor = (typeof MONEY_DOORS)[number];

/** Pico-dollars per token. A second list, so that a slip in the product's own shows. */
const RATES: Readonly<Record<string, readonly [input: bigint, output: bigint]>> = {
  'gpt-4o-mini': [150_000n, 600_000n],
  'gpt-4o': [2_500_000n, 10_000_000n],
  'a-model-without-a-price': [10_000_000n, 30_000_000n],
};
/** More than the events of one stream are approximated to: a provider heeds the maximum that a call states. */
const STREAMED_TOKENS = 20;
/** Policy sends these on as another model: the first is cheaper than what it becomes, the second dearer. */
export const MUTATED: Readonly<Record<string, string>> = { 'gpt-4o-mini-2024-07-18': 'gpt-4o', 'too-good-for-this': 'gpt-4o-mini' };
const MODELS = [...Object.keys(RATES), ...Object.keys(MUTATED)];

/** One call as it is to be made. Its tag becomes the caller id of its record. */
export interface BudgetCall {
  readonly tag: string;
  readonly door: MoneyDoor;
  readonly model: string;
  /** Embeddings have no output. */
  readonly embeds: boolean;
  readonly maxTokens: number;
  /** Answers asked for. */
  readonly answers: number;
  /** Token ids: they alone are counted and not approximated. */
  readonly prompt: number;
  readonly charge: Charge;
  readonly project: string;
  readonly workload: string;
  /** The client leaves so many milliseconds after sending. */
  readonly abortAfter: number | undefined;
  /** `context.estimates` of the structured API. */
  readonly estimates: { readonly tokens_in?: number; readonly tokens_out_max?: number } | undefined;
  readonly idempotencyKey: string | undefined;
  /** `direct` only. */
  readonly delegationToken?: string;
}

export interface Circumstances {
  readonly tag: string;
  readonly door: MoneyDoor;
  readonly project: string;
  readonly workload: string;
  /** The provider never takes more input than was estimated. */
  readonly exact: boolean;
}

const FATES: readonly (readonly [number, Fate])[] = [
  [14, 'answer'],
  [1, 'truncate'],
  [1, 'reset'],
  [1, 500],
  [1, 502],
];

export function drawBudgetCall(random: Seeded, { exact, ...who }: Circumstances): BudgetCall {
  const embeds = who.door !== 'socket' && random.chance(0.1);
  const prompt = random.between(0, 500);
  const maxTokens = random.between(1, 500);
  const answers = !embeds && who.door !== 'socket' && random.chance(0.15) ? random.between(2, 4) : 1;
  const drawn = {
    ...who,
    model: random.pick(MODELS),
    embeds,
    maxTokens,
    answers,
    prompt,
    abortAfter: random.chance(0.1) ? random.between(0, 40) : undefined,
    estimates: undefined,
    idempotencyKey: who.door === 'direct' && random.chance(0.1) ? `key-${who.tag}` : undefined,
  };
  const tokensIn = prompt;
  const estimates = who.door === 'direct' && random.chance(0.2) ? drawEstimates(random, tokensIn, maxTokens * answers) : undefined;
  // A caller that knows its prompt better states more than is counted: what it states is the bound then.
  const boundIn = Math.max(tokensIn, estimates?.tokens_in ?? 0);
  const events = !embeds && maxTokens >= STREAMED_TOKENS && random.chance(0.4) ? random.between(1, 6) : 0;
  // A stream that says something and reports no output has reported nothing: that is charged as what was seen.
  const leastOut = events > 0 ? 1 : 0;
  const charge: Charge = {
    fate: random.weighted(FATES),
    tokensIn: exact ? (random.chance(0.5) ? boundIn : random.between(0, boundIn)) : random.between(0, boundIn * 4 + 1_000),
    tokensOut: embeds ? 0 : random.chance(0.7) ? maxTokens * answers : random.between(leastOut, maxTokens * answers),
    delay: random.between(0, 25),
    events,
  };
  return { ...drawn, estimates, charge };
}

/** Lower than the truth, higher, or one of each: none may lower what is set aside. */
function drawEstimates(random: Seeded, tokensIn: number, tokensOut: number): NonNullable<BudgetCall['estimates']> {
  return {
    ...(random.chance(0.7) ? { tokens_in: random.pick([0, tokensIn * 2, tokensIn + 700]) } : {}),
    ...(random.chance(0.7) ? { tokens_out_max: random.pick([0, tokensOut, tokensOut * 2]) } : {}),
  };
}

/**
 * What is to be set aside for the call, pico-dollars: the larger of what it states and what is counted, in each
 * direction.
 */
export function reservationOf(call: BudgetCall): bigint {
  const [input, output] = ratesOf(call);
  const tokensIn = Math.max(call.prompt, call.estimates?.tokens_in ?? 0);
  const tokensOut = Math.max(call.embeds ? 0 : call.maxTokens * call.answers, call.estimates?.tokens_out_max ?? 0);
  return BigInt(tokensIn) * input + BigInt(tokensOut) * output;
}

/** What it costs when its answer comes whole. */
export function costOf(call: BudgetCall): bigint {
  const [input, output] = ratesOf(call);
  return BigInt(call.charge.tokensIn) * input + BigInt(call.charge.tokensOut) * output;
}

/** Of the model that policy makes of the call's, pico-dollars per token. */
export function ratesOf({ model }: BudgetCall): readonly [bigint, bigint] {
  const rates = RATES[MUTATED[model] ?? model];
  if (rates === undefined) throw new Error(`no rates for ${model}`);
  return rates;
}

/** How a call ended for its client. */
export interface BudgetResult {
  readonly call: BudgetCall;
  /** Undefined when no whole answer came. */
  readonly status: number | undefined;
  readonly text: string;
  readonly recordId: string | undefined;
}

/** Callers of one gateway, with connections that they keep. */
export class BudgetCallers {
  readonly #gateway: { readonly port: number; readonly caPem: string };
  readonly #kept = new Map<string, Socket>();
  readonly #cleanUp = new CleanUp();
  #session: Promise<ClientHttp2Session> | undefined;

  constructor(gateway: { readonly port: number; readonly caPem: string }) {
    this.#gateway = gateway;
  }

  /** Never rejects. */
  async perform(call: BudgetCall, lane: number): Promise<BudgetResult> {
    try {
      if (call.door === 'socket') return await this.#overSocket(call);
      return call.door === 'connect-h2' ? await this.#overH2(call) : await this.#overH1(call, lane);
    } catch {
      return { call, status: undefined, text: '', recordId: undefined };
    }
  }

  async close(): Promise<void> {
    for (const socket of this.#kept.values()) socket.destroy();
    const session = await this.#session?.catch(() => undefined);
    session?.destroy();
    await this.#cleanUp.run();
  }

  async #overH1(call: BudgetCall, lane: number): Promise<BudgetResult> {
    const key = `${call.door}/${lane}`;
    const kept = this.#kept.get(key);
    const socket = kept && !kept.destroyed ? kept : await this.#connect(call.door);
    this.#kept.set(key, socket);
    const timer = call.abortAfter === undefined ? undefined : setTimeout(() => socket.destroy(), call.abortAfter);
    try {
      const { status, body, headers } = await h1Request(
        socket,
        call.door === 'connect-h1' ? AI_HOST : `127.0.0.1:${this.#gateway.port}`,
        requestOf(call),
      );
      return { call, status, text: body.toString('latin1'), recordId: headers['x-gw-record-id'] };
    } catch (error) {
      socket.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #connect(door: MoneyDoor): Promise<Socket> {
    const { port, caPem } = this.#gateway;
    const socket = await (door === 'connect-h1' ? connectThrough(port, `${AI_HOST}:443`, caPem) : connectPlain(port));
    socket.on('error', () => undefined);
    return socket;
  }

  async #overH2(call: BudgetCall): Promise<BudgetResult> {
    const { port, caPem } = this.#gateway;
    this.#session ??= connectThrough(port, `${AI_HOST}:443`, caPem, { alpn: ['h2'] }).then((socket) => h2Session(socket, AI_HOST));
    const session = await this.#session;
    const { signal, timer } = leaveAfter(call);
    const request = h2Request(session, { ...requestOf(call), signal });
    try {
      const { status, body, headers } = await request;
      return { call, status, text: body.toString('latin1'), recordId: headers['x-gw-record-id'] };
    } finally {
      clearTimeout(timer);
    }
  }

  /** One response on a socket of its own. */
  async #overSocket(call: BudgetCall): Promise<BudgetResult> {
    const { port, caPem } = this.#gateway;
    const connection = await connectThrough(port, `${AI_HOST}:443`, caPem);
    connection.on('error', () => undefined);
    const headers = { authorization: 'Bearer sk-proof', ...identityOf(call) };
    const socket = webSocketOn(this.#cleanUp, connection, AI_HOST, '/v1/responses', { headers });
    const timer = call.abortAfter === undefined ? undefined : setTimeout(() => socket.terminate(), call.abortAfter);
    return new Promise((resolve, reject) => {
      const over = (status: number, text: string): void => {
        clearTimeout(timer);
        socket.close();
        resolve({ call, status, text, recordId: undefined });
      };
      socket.on('open', () => socket.send(JSON.stringify({ type: 'response.create', ...paramsOf(call) })));
      socket.on('message', (data: Buffer) => {
        const text = data.toString();
        const event = JSON.parse(text) as { type: string; status?: number };
        if (event.type === 'response.completed') over(200, text);
        else if (event.type === 'error') over(event.status ?? 0, text);
      });
      socket.on('close', () => {
        clearTimeout(timer);
        reject(new Error('the socket was closed'));
      });
    });
  }
}

function leaveAfter({ abortAfter }: BudgetCall): { signal?: AbortSignal; timer: NodeJS.Timeout | undefined } {
  if (abortAfter === undefined) return { timer: undefined };
  const leaving = new AbortController();
  return { signal: leaving.signal, timer: setTimeout(() => leaving.abort(), abortAfter) };
}

function identityOf({ tag, project, workload }: BudgetCall): Record<string, string> {
  return { 'x-gw-caller-id': tag, 'x-gw-project-id': project, 'x-gw-workload-id': workload };
}

function requestOf(call: BudgetCall): { method: string; path: string; headers: string[]; body: string } {
  const path = call.embeds ? '/v1/embeddings' : '/v1/chat/completions';
  if (call.door !== 'direct') {
    const headers = { authorization: 'Bearer sk-proof', 'content-type': 'application/json', ...identityOf(call) };
    const prefix = call.door === 'redirect' ? '/proxy/openai' : '';
    return { method: 'POST', path: prefix + path, headers: Object.entries(headers).flat(), body: JSON.stringify(paramsOf(call)) };
  }
  const type = call.embeds ? 'ai.embed' : 'ai.infer';
  const body = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: call.workload,
    caller_id: call.tag,
    credential_hint: 'sk-proof',
    attribution: { project_id: call.project },
    ...(call.idempotencyKey === undefined ? {} : { idempotency_key: call.idempotencyKey }),
    ...(call.delegationToken === undefined ? {} : { delegation_token: call.delegationToken }),
    ...(call.estimates === undefined ? {} : { context: { estimates: call.estimates } }),
    action: { type, method: 'POST', target_host: AI_HOST, target_path: path, params: paramsOf(call) },
  };
  return { method: 'POST', path: '/v1/actions:execute', headers: ['content-type', 'application/json'], body: JSON.stringify(body) };
}

function paramsOf({ door, embeds, model, maxTokens, answers, prompt, charge }: BudgetCall): object {
  const tokens = Array.from({ length: prompt }, () => 1);
  if (embeds) return { model, input: tokens, metadata: charge };
  if (door === 'socket') return { model, input: tokens, max_output_tokens: maxTokens, metadata: charge };
  return {
    model,
    messages: tokens,
    max_tokens: maxTokens,
    ...(answers > 1 ? { n: answers } : {}),
    ...(charge.events > 0 ? { stream: true, stream_options: { include_usage: true } } : {}),
    metadata: charge,
  };
}
