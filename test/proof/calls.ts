import { createHash, type Hash } from 'node:crypto';
import { AI_HOST, type Pace } from './paced-upstream.ts';
import type { Seeded } from './seeded.ts';

export const DOORS = ['direct', 'redirect', 'connect-h1', 'connect-h2'] as const;
export type Door = (typeof DOORS)[number];

/** One call as it is to be made. Its tag travels as `caller_id` (and so into the record) and in the body (and so to the upstream and back). */
export interface CallPlan {
  readonly tag: string;
  readonly door: Door;
  readonly pace: Pace;
  /** By a workload that nobody registered: refused, with a record. */
  readonly denied: boolean;
  readonly model: string;
  /** The client leaves so many milliseconds after sending. */
  readonly abortAfter: number | undefined;
  /** Bytes of the prompt. */
  readonly prompt: number;
}

const MODELS = ['gpt-4o-mini', 'gpt-4o', 'a-model-without-a-price'];
const END_AFTER: readonly (readonly [number, number])[] = [
  [4, 0],
  [2, 3],
  [2, 30],
  // Longer than the gateway waits for a stream's end.
  [1, 400],
];

/** Draws a call of the usual mix: small and large answers, streams, some clients that leave, some denials. */
export function drawCall(random: Seeded, tag: string, door = random.pick(DOORS)): CallPlan {
  const kind = random.weighted<'small' | 'large' | 'stream' | 'denied'>([
    [40, 'small'],
    [5, 'large'],
    [45, 'stream'],
    [10, 'denied'],
  ]);
  const pace: Pace = {
    tag,
    delay: random.between(0, 20),
    events: kind === 'stream' ? random.between(1, 24) : 0,
    gap: random.between(0, 6),
    end: random.weighted(END_AFTER),
    bytes: kind === 'large' ? random.between(60_000, 200_000) : random.between(0, 2_000),
    chunked: random.chance(0.5),
  };
  const abortAfter = random.chance(0.08) ? random.between(0, 80) : undefined;
  return { tag, door, pace, denied: kind === 'denied', model: random.pick(MODELS), abortAfter, prompt: random.between(10, 1_000) };
}

/** What the client of a call saw. */
export class CallResult {
  readonly plan: CallPlan;
  status = 0;
  recordId: string | undefined;
  recordHash: string | undefined;
  /** The framed end of the answer has come. */
  complete = false;
  /** The event that applications act on has come. */
  terminal = false;
  /** Our own client left. */
  aborted = false;
  /** Why the answer did not come to its end. */
  failure: string | undefined;
  readonly #hash: Hash = createHash('sha256');
  #text = '';

  constructor(plan: CallPlan) {
    this.plan = plan;
  }

  /** An application that got this would act on it: decision 7.9 asks for its record. */
  get acknowledged(): boolean {
    return this.complete || this.terminal;
  }

  head(status: number, headers: Readonly<Record<string, unknown>>): void {
    this.status = status;
    const text = (name: string) => (typeof headers[name] === 'string' ? headers[name] : undefined);
    this.recordId = text('x-gw-record-id');
    this.recordHash = text('x-gw-record-hash');
  }

  body(piece: Buffer): void {
    this.#hash.update(piece);
    if (this.plan.pace.events > 0 || this.#text.length < 1_000) this.#text += piece.toString('latin1');
    if (this.plan.pace.events > 0 && !this.terminal) this.terminal = this.#text.includes('data: [DONE]\n');
  }

  /** SHA-256 of a complete body. */
  bodyHash(): string {
    return this.#hash.copy().digest('hex');
  }

  /** What is wrong with an acknowledged answer, apart from its record. */
  fault(): string | undefined {
    const { tag, denied, door } = this.plan;
    const expected = denied ? 403 : 200;
    if (this.status !== expected) return `${tag}: status ${this.status} at ${door}: ${this.#text.slice(0, 200)}`;
    if (!denied && !this.#text.includes(`chatcmpl-${tag}`)) return `${tag}: the answer of another call: ${this.#text.slice(0, 200)}`;
    return this.recordId === undefined ? `${tag}: no X-GW-Record-ID` : undefined;
  }

  /** True when `bodyHash` is to be what the record states: the upstream's bytes, passed as they are. */
  get verbatim(): boolean {
    return this.complete && !this.plan.denied && (this.plan.door !== 'direct' || this.plan.pace.events > 0);
  }
}

export interface WireCall {
  readonly path: string;
  readonly host: string;
  /** Names in lower case, so that they serve h2 too. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A call as it goes over the wire at its door. */
export function wireCall(plan: CallPlan, gatewayPort: number): WireCall {
  const { tag, door, denied } = plan;
  const workload = denied ? 'nobody' : 'default';
  const params = {
    model: plan.model,
    messages: [{ role: 'user', content: 'y'.repeat(plan.prompt) }],
    ...(plan.pace.events > 0 ? { stream: true } : {}),
    metadata: plan.pace,
  };
  const own = `127.0.0.1:${gatewayPort}`;
  if (door === 'direct') {
    const action = { type: 'ai.infer', method: 'POST', target_host: AI_HOST, target_path: '/v1/chat/completions', params };
    const envelope = {
      schema: 'gw.action_request.v2',
      org_id: 'default',
      workload_id: workload,
      caller_id: tag,
      credential_hint: 'sk-proof',
      action,
    };
    return { path: '/v1/actions:execute', host: own, headers: { 'content-type': 'application/json' }, body: bytes(envelope) };
  }
  const headers = {
    authorization: 'Bearer sk-proof',
    'content-type': 'application/json',
    'x-gw-caller-id': tag,
    'x-gw-workload-id': workload,
  };
  if (door === 'redirect') return { path: '/proxy/openai/v1/chat/completions', host: own, headers, body: bytes(params) };
  return { path: '/v1/chat/completions', host: AI_HOST, headers, body: bytes(params) };
}

function bytes(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
