import { createHash, type Hash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { type Pace, streamEvents, wholeAnswer } from './paced-answer.ts';
import { AI_HOST, KNOWN_HOST, OTHER_HOST } from './paced-upstream.ts';
import type { Seeded } from './seeded.ts';

/**
 * The ways of a call to an AI host, which is always governed and recorded. `plain-tunnel`: plain HTTP inside a CONNECT
 * to port 80.
 */
export const DOORS = ['direct', 'redirect', 'absolute', 'connect-h1', 'connect-h2', 'plain-tunnel'] as const;
/** The ways to a host that is no provider. What becomes of them is up to `GW_PROXY_NON_AI`. */
export const OTHER_DOORS = ['other-tunnel', 'other-h2', 'other-absolute'] as const;
export type Door = (typeof DOORS)[number] | (typeof OTHER_DOORS)[number];
/** Values of `GW_PROXY_NON_AI`. */
export const NON_AI_MODES = ['pass', 'inspect', 'govern-ai', 'govern'] as const;
export type NonAiMode = (typeof NON_AI_MODES)[number];

/**
 * What a call sends: JSON, the same under `Content-Encoding`, a form whose fields policy reads, a file that it does not
 * read.
 */
export type Content = 'json' | 'gzip' | 'form' | 'file';

/**
 * One call as it is to be made. Its tag travels as `caller_id` (and so into the record) and in the body (and so to the
 * upstream and back).
 */
export interface CallPlan {
  readonly tag: string;
  readonly door: Door;
  readonly host: string;
  /** Policy decides it, and it has a record of its own. */
  readonly governed: boolean;
  readonly pace: Pace;
  /** By a workload that nobody registered: refused, with a record. */
  readonly denied: boolean;
  /** The client leaves so many milliseconds after sending. */
  readonly abortAfter: number | undefined;
  /** Bytes of the prompt, or of the file. */
  readonly prompt: number;
  readonly content: Content;
  readonly sending: Sending;
}

/** How the body of a request leaves. */
export interface Sending {
  /** Transfer-Encoding in the place of Content-Length; h2 sends no length either. */
  readonly chunked: boolean;
  /** 1: all at once, behind the head. */
  readonly pieces: number;
  /** Milliseconds between two writes. */
  readonly gap: number;
}

const MODELS = ['gpt-4o-mini', 'gpt-4o', 'a-model-without-a-price'];
const END_AFTER: readonly (readonly [number, number])[] = [
  [4, 0],
  [2, 3],
  [2, 30],
  // Longer than the gateway waits for a stream's end.
  [1, 400],
];
const CONTENTS: readonly (readonly [number, Content])[] = [
  [8, 'json'],
  [1, 'gzip'],
  [1, 'form'],
  [1, 'file'],
];

/**
 * Draws a call of the usual mix: small and large answers, streams, uploads, some clients that leave, some denials.
 * `nonAi`: the gateway's mode.
 */
export function drawCall(random: Seeded, tag: string, door: Door = random.pick(DOORS), nonAi: NonAiMode = 'pass'): CallPlan {
  const kind = random.weighted<'small' | 'large' | 'stream' | 'denied'>([
    [40, 'small'],
    [5, 'large'],
    [45, 'stream'],
    [10, 'denied'],
  ]);
  const content = door === 'direct' ? 'json' : random.weighted(CONTENTS);
  const host = isOther(door) ? random.pick([OTHER_HOST, KNOWN_HOST]) : AI_HOST;
  const governed = !isOther(door) || nonAi === 'govern' || (nonAi === 'govern-ai' && host === KNOWN_HOST && door === 'other-absolute');
  const pace: Pace = {
    tag,
    model: random.pick(MODELS),
    delay: random.between(0, 20),
    // Nothing is known of the streams of operations that no connector has, so none is asked for.
    events: kind === 'stream' && content !== 'file' ? random.between(1, 24) : 0,
    gap: random.between(0, 6),
    end: random.weighted(END_AFTER),
    bytes: kind === 'large' ? random.between(60_000, 200_000) : random.between(0, 2_000),
    chunked: random.chance(0.5),
  };
  const upload = content === 'file' || content === 'form';
  return {
    tag,
    door,
    host,
    governed,
    pace,
    denied: kind === 'denied' && governed,
    abortAfter: random.chance(0.08) ? random.between(0, 80) : undefined,
    prompt: upload && random.chance(0.3) ? random.between(50_000, 500_000) : random.between(10, 1_000),
    content,
    sending: {
      chunked: random.chance(0.3),
      pieces: random.chance(0.3) ? random.between(2, 12) : 1,
      gap: random.between(0, 4),
    },
  };
}

/** It leads to a host that is no provider. */
export function isOther(door: Door): boolean {
  return (OTHER_DOORS as readonly Door[]).includes(door);
}

/** What the client of a call saw. Times are of `performance.now()`. */
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
  /** How everything on its way stood when it was broken off because it hung. */
  stand: readonly string[] = [];
  /** Of its connection, as the other end sees it. */
  localPort = 0;
  /** The whole request was given to the connection. */
  sent = false;
  /** The answer said that its connection takes no further request (RFC 9112 §9.6). */
  last = false;
  readonly startedAt = performance.now();
  overAt = 0;
  /** SHA-256 of the request body. */
  bodySent: string | undefined;
  /** Of the answer's body, once the call is over. */
  bodyHash = '';
  #fault: string | undefined;
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
    this.last = text('connection')?.toLowerCase() === 'close';
  }

  body(piece: Buffer): void {
    this.#hash.update(piece);
    const { pace, door } = this.plan;
    if (pace.events > 0 || door === 'direct' || this.#text.length < 1_000) this.#text += piece.toString('latin1');
    // Of an answer in no dialect that the gateway knows only the end can be kept back for the record.
    if (pace.events > 0 && !isOther(door) && !this.terminal) this.terminal = this.#text.includes('data: [DONE]\n');
  }

  /** Nothing more will come. Judges what came, and lets go of it. */
  finish(): void {
    this.overAt = performance.now();
    this.bodyHash = this.#hash.digest('hex');
    if (this.acknowledged) this.#fault = this.#judge();
    this.#text = this.#text.slice(0, 300);
  }

  /** What is wrong with an acknowledged answer, apart from its record. */
  get fault(): string | undefined {
    return this.#fault;
  }

  #judge(): string | undefined {
    const { tag, denied, door, governed } = this.plan;
    const expected = denied ? 403 : 200;
    if (this.status !== expected) return `${tag}: status ${this.status} at ${door}: ${this.#text.slice(0, 200)}`;
    if (!denied && this.complete && !this.#isWhole()) return `${tag}: what came by ${door} is not the answer: ${this.#text.slice(0, 200)}`;
    return this.recordId === undefined && governed ? `${tag}: no X-GW-Record-ID` : undefined;
  }

  /** What the gateway or the upstream said of it. */
  get said(): string {
    return this.#text;
  }

  /** True when `bodyHash` is to be what the record states: the upstream's bytes, passed as they are. */
  get verbatim(): boolean {
    return this.complete && this.status === 200 && !this.plan.denied && (this.plan.door !== 'direct' || this.plan.pace.events > 0);
  }

  /** It is the upstream's answer to this very request, to the last byte. An envelope holds it as a value. */
  #isWhole(): boolean {
    const { pace, door } = this.plan;
    const sent = door === 'direct' ? undefined : this.bodySent;
    if (door === 'direct' && pace.events === 0) {
      const whole = wholeAnswer(pace, undefined);
      return (
        this.#text.includes(whole) || JSON.stringify((JSON.parse(this.#text) as { result?: { body?: unknown } }).result?.body) === whole
      );
    }
    const wanted = pace.events > 0 ? streamEvents(pace, sent).join('') : wholeAnswer(pace, sent);
    return createHash('sha256').update(wanted).digest('hex') === this.bodyHash;
  }
}

export interface WireCall {
  readonly path: string;
  /** What stands before the path in the request target. */
  readonly origin: string;
  readonly host: string;
  /** Names in lower case, so that they serve h2 too. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A call as it goes over the wire at its door. `gatewayPort`: as the gateway knows it. */
export function wireCall(plan: CallPlan, gatewayPort: number): WireCall {
  const own = `127.0.0.1:${gatewayPort}`;
  if (plan.door === 'direct') return directCall(plan, own);
  const { path, type, body } = CONTENT[plan.content](plan);
  const headers = {
    authorization: 'Bearer sk-proof',
    'content-type': type,
    ...(plan.content === 'gzip' ? { 'content-encoding': 'gzip' } : {}),
    ...(plan.governed ? { 'x-gw-caller-id': plan.tag, 'x-gw-workload-id': plan.denied ? 'nobody' : 'default' } : {}),
    'x-proof-pace': JSON.stringify(plan.pace),
  };
  if (plan.door === 'redirect') {
    const prefix = plan.host === AI_HOST ? 'openai' : 'mistral';
    return { path: `/proxy/${prefix}${path}`, origin: '', host: own, headers, body };
  }
  const absolute = plan.door === 'absolute' || plan.door === 'other-absolute';
  return { path, origin: absolute ? `http://${plan.host}` : '', host: plan.host, headers, body };
}

function directCall(plan: CallPlan, own: string): WireCall {
  const action = {
    type: 'ai.infer',
    method: 'POST',
    target_host: plan.host,
    target_path: '/v1/chat/completions',
    params: { ...params(plan), metadata: plan.pace },
  };
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: plan.denied ? 'nobody' : 'default',
    caller_id: plan.tag,
    credential_hint: 'sk-proof',
    action,
  };
  return { path: '/v1/actions:execute', origin: '', host: own, headers: { 'content-type': 'application/json' }, body: bytes(envelope) };
}

const CONTENT: Readonly<Record<Content, (plan: CallPlan) => { path: string; type: string; body: Buffer }>> = {
  json: (plan) => ({ path: '/v1/chat/completions', type: 'application/json', body: bytes(params(plan)) }),
  gzip: (plan) => ({ path: '/v1/chat/completions', type: 'application/json', body: gzipSync(bytes(params(plan))) }),
  form: (plan) => ({ path: '/v1/audio/transcriptions', type: 'multipart/form-data; boundary=proof', body: form(plan) }),
  file: (plan) => ({ path: '/v1/files', type: 'application/octet-stream', body: Buffer.alloc(plan.prompt, `file of ${plan.tag} `) }),
};

function params({ pace, prompt }: CallPlan): object {
  return {
    model: pace.model,
    messages: [{ role: 'user', content: 'y'.repeat(prompt) }],
    ...(pace.events > 0 ? { stream: true } : {}),
  };
}

function form({ pace, prompt, tag }: CallPlan): Buffer {
  const field = (name: string, value: string) => `--proof\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const file = `--proof\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n`;
  const fields = field('model', pace.model) + (pace.events > 0 ? field('stream', 'true') : '');
  return Buffer.concat([Buffer.from(fields + file), Buffer.alloc(prompt, `sound of ${tag} `), Buffer.from('\r\n--proof--\r\n')]);
}

function bytes(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
