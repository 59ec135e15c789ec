import { gunzipSync } from 'node:zlib';
import { type Governed, startGoverned } from './governed.ts';
import type { HasTeardown } from './temp-dir.ts';
import type { UpstreamHandler } from './tls-upstream.ts';

export const RECEIVER = 'otel.example.com';

/** A span as it was sent, its attributes by name. */
export interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code?: number };
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** What came to the receiver of traces in one request. */
export interface SpanPost {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly Value[] };
}

function plain({ stringValue, intValue, doubleValue, boolValue, arrayValue }: Value): unknown {
  return (
    stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue ?? arrayValue?.values.map(plain)
  );
}

/** The spans of a request. */
export function spansIn(text: string): SentSpan[] {
  const request = JSON.parse(text) as {
    resourceSpans: { scopeSpans: { spans: (Omit<SentSpan, 'attributes'> & { attributes: { key: string; value: Value }[] })[] }[] }[];
  };
  const spans = request.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
  return spans.map((span) => ({ ...span, attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, plain(value)])) }));
}

/** Receives spans, answers as it is told to, and lets a test wait for them. */
export class SpanReceiver {
  readonly posts: SpanPost[] = [];
  answer: (post: SpanPost, at: number) => { status: number; headers?: Record<string, string>; body?: string } = () => ({
    status: 200,
    body: '{}',
  });
  #wake: () => void = () => undefined;

  get spans(): SentSpan[] {
    return this.posts.flatMap(({ text }) => spansIn(text));
  }

  handler(others: UpstreamHandler): UpstreamHandler {
    return (request, response, whole) => {
      if (request.headers.host !== RECEIVER) {
        others(request, response, whole);
        return;
      }
      void whole.then((bytes) => {
        const text = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
        const post = { path: request.url ?? '', headers: request.headers, text };
        this.posts.push(post);
        const { status, headers, body = '' } = this.answer(post, this.posts.length - 1);
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
        this.#wake();
      });
    };
  }

  async until(reached: () => boolean): Promise<void> {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** A gateway that sends its traces to a receiver beside the providers. */
export async function startTraced(
  t: HasTeardown,
  { handler, env, ...options }: Parameters<typeof startGoverned>[1] & { handler: UpstreamHandler },
): Promise<{ governed: Governed; receiver: SpanReceiver; flushed(): Promise<SentSpan[]> }> {
  const receiver = new SpanReceiver();
  const governed = await startGoverned(t, {
    ...options,
    hosts: [RECEIVER],
    handler: receiver.handler(handler),
    env: { GW_OTLP_ENDPOINT: `https://${RECEIVER}`, ...env },
  });
  return {
    governed,
    receiver,
    /** Stops the gateway, which sends what waits. */
    flushed: async () => {
      await governed.gw.gateway.stop();
      return receiver.spans;
    },
  };
}
