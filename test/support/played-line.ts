import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLine } from '../../src/app/line.ts';
import { openResources, type Replacements } from '../../src/app/resources.ts';
import { loadConfig } from '../../src/base/config/config.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Arrival, ArrivalHead, ReplySink } from '../../src/base/model/arrival.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import type { Upstream, UpstreamCall } from '../../src/outbound/net/upstream.ts';
import type { LineGround } from '../../src/pipeline/parts/call-services.ts';
import { ADMIN_TOKEN } from './gateway.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** What the provider of a play answers. */
export interface PlayedAnswer {
  readonly status?: number;
  readonly headers?: readonly string[];
  readonly body: string;
}

export interface Play {
  readonly pipeline: LineGround;
  /**
   * What happened, in order: `commit` (a record is stored), `call HOST`, `head STATUS`, `end`, `whole STATUS`, `reset`.
   */
  readonly happened: string[];
  /** What was sent to the provider. */
  readonly calls: UpstreamCall[];
}

export interface PlayOptions extends Replacements {
  readonly bundle: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly answer?: PlayedAnswer;
}

const ANSWER: PlayedAnswer = { body: '{"model":"gpt-4o-mini","usage":{"prompt_tokens":11,"completion_tokens":7}}' };
const JSON_HEAD = ['content-type', 'application/json'];

/**
 * All services of a gateway and a provider that answers at once, without a port or a socket anywhere: requests are
 * handed to the line.
 */
export async function openPlay(t: HasTeardown, options: PlayOptions): Promise<Play> {
  const dir = tempDir(t);
  await mkdir(join(dir, 'policies'));
  await writeFile(join(dir, 'policies', 'bundle.yaml'), options.bundle);
  const places = { GW_DATA_DIR: join(dir, 'data'), GW_CA_DIR: join(dir, 'ca'), GW_POLICIES_DIR: join(dir, 'policies') };
  const { config } = loadConfig({ ...places, GW_PROXY_MITM_ENABLED: 'false', GW_ADMIN_TOKEN: ADMIN_TOKEN, ...options.env }, false);
  const closers: (() => Promise<void>)[] = [];
  t.teardown(async () => {
    for (let close = closers.pop(); close; close = closers.pop()) await close();
  });
  const resources = await openResources(config, { log: silentLogger, ...options }, closers);
  const { pipeline } = createLine(config, resources, () => undefined);
  const happened: string[] = [];
  const calls: UpstreamCall[] = [];
  const { store } = pipeline;
  return {
    happened,
    calls,
    pipeline: {
      ...pipeline,
      store: {
        ...boundTo(store),
        async commit(record, effects) {
          await store.commit(record, effects);
          if (record) happened.push('commit');
        },
      },
      upstream: playedUpstream(options.answer ?? ANSWER, happened, calls),
    },
  };
}

/** The verbs of an object of a class, so that some of them can be replaced. */
export function boundTo<T extends object>(target: T): T {
  return new Proxy(target, {
    get(of, name) {
      const value: unknown = Reflect.get(of, name, of);
      return typeof value === 'function' ? (value.bind(of) as unknown) : value;
    },
    ownKeys: (of) =>
      [...new Set([...Reflect.ownKeys(of), ...Reflect.ownKeys(Object.getPrototypeOf(of) as object)])].filter(
        (name) => name !== 'constructor',
      ),
    getOwnPropertyDescriptor: (of, name) => ({ configurable: true, enumerable: true, value: Reflect.get(of, name, of) as unknown }),
  });
}

function playedUpstream({ status = 200, headers = JSON_HEAD, body }: PlayedAnswer, happened: string[], calls: UpstreamCall[]): Upstream {
  const never = (): never => {
    throw new Error('this play has no such part');
  };
  return {
    call(call, events) {
      calls.push(call);
      happened.push(`call ${call.authority.host}`);
      queueMicrotask(() => {
        events.onHead(status, headers, () => undefined);
        events.onData(Buffer.from(body));
        events.onEnd([]);
      });
      return { abort: () => undefined };
    },
    upgrade: never,
    connect: never,
    dial: never,
    admits: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

export interface PlayedRequest {
  readonly method?: string;
  readonly path: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The client is gone before its body has come. */
  readonly leaves?: boolean;
}

/** A request as a listener would hand it over, whose answer is kept in `said`. */
export function arrivalOf(
  { happened, pipeline }: Play,
  request: PlayedRequest,
): Arrival & { readonly said: { body: string; headers: readonly string[] } } {
  const { method = 'POST', path, host = 'api.openai.com', body, leaves = false } = request;
  const bytes = body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body));
  const headers = {
    host,
    ...(bytes.length > 0 ? { 'content-type': 'application/json', 'content-length': String(bytes.length) } : {}),
    ...request.headers,
  };
  const said = { body: '', headers: [] as readonly string[] };
  return { head: headOf(method, path, headers, pipeline), body: bodyOf(bytes, leaves), reply: replyOf(happened, said), said };
}

function headOf(method: string, rawTarget: string, headers: Record<string, string>, { clock }: LineGround): ArrivalHead {
  return {
    door: 'origin',
    trafficClass: 'developer',
    method,
    rawTarget,
    rawHeaders: Object.entries(headers).flat(),
    headers,
    httpVersion: '1.1',
    secure: false,
    remoteAddress: '127.0.0.1',
    startedAt: clock.monotonic(),
  };
}

function bodyOf(bytes: Buffer, leaves: boolean): Arrival['body'] {
  return {
    declaredLength: bytes.length,
    trailers: [],
    readAll: () => (leaves ? Promise.reject(new GatewayError('client_gone', 'The client left.')) : Promise.resolve(bytes)),
    async *stream() {
      await Promise.resolve();
      yield bytes;
    },
  };
}

function replyOf(happened: string[], said: { body: string; headers: readonly string[] }): ReplySink {
  let headSent = false;
  const begin = (text: string, headers: readonly string[]): void => {
    headSent = true;
    said.headers = headers;
    happened.push(text);
  };
  return {
    get headSent() {
      return headSent;
    },
    gone: false,
    info: () => undefined,
    head: (status, headers) => begin(`head ${status}`, headers),
    write(chunk) {
      said.body += Buffer.from(chunk).toString();
      return true;
    },
    onDrain: () => undefined,
    end: () => void happened.push('end'),
    sendWhole(status, headers, body) {
      begin(`whole ${status}`, headers);
      said.body = Buffer.from(body).toString();
    },
    reset: () => void happened.push('reset'),
    onGone: () => undefined,
  };
}

/** The record of a call that has one. */
export function recordIn(result: { readonly kind: string; readonly record?: ExecutionRecord; readonly error?: Error }): ExecutionRecord {
  if (result.record === undefined) throw new Error(`the call ended as ${result.kind}`, { cause: result.error });
  return result.record;
}
