import t, { type Test } from 'tap';
import type { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { createUpstream, type UpstreamOptions } from '../../src/outbound/net/create-upstream.ts';
import type { Upstream, UpstreamCall, UpstreamEvents } from '../../src/outbound/net/upstream.ts';
import { runningClock } from './fake-clock.ts';
import type { HasTeardown } from './temp-dir.ts';
import { UndiciLane } from './undici-lane.ts';

export interface Outcome {
  readonly status: number;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
  readonly infos: readonly (readonly [number, readonly string[]])[];
  readonly error: GatewayError | undefined;
}

/** Who speaks HTTP/1.1 to the upstream: our own client, or undici, which judges it. */
export const CLIENTS = ['direct', 'undici'] as const;
export type Client = (typeof CLIENTS)[number];

/** What makes an upstream, or a gateway, speak by this client. */
export function spokenBy(client: Client): Pick<UpstreamOptions, 'openLane'> {
  return client === 'undici' ? { openLane: (owner, options) => new UndiciLane(owner, options) } : {};
}

export type OpenUpstream = (t: HasTeardown, options?: Partial<UpstreamOptions>) => Upstream;

/** One test for each client: what is said of an upstream holds for both. */
export function eachClient(name: string, test: (t: Test, openUpstream: OpenUpstream, client: Client) => unknown): void {
  for (const client of CLIENTS) {
    t.test(`${client}: ${name}`, async (t) => {
      await test(t, (t, options = {}) => openUpstream(t, { ...spokenBy(client), ...options }), client);
    });
  }
}

/** An upstream client with long time-outs that is closed when the test ends. */
export function openUpstream(t: HasTeardown, options: Partial<UpstreamOptions> = {}): Upstream {
  const upstream = createUpstream({ clock: runningClock, headersTimeoutMs: 60_000, idleTimeoutMs: 60_000, ...options });
  t.teardown(() => upstream.close());
  return upstream;
}

/** Makes a call and collects everything that it tells. */
export function collect(upstream: Upstream, call: Partial<UpstreamCall> & { authority: UpstreamCall['authority'] }): Promise<Outcome> {
  return new Promise((resolve) => {
    let status = 0;
    let rawHeaders: readonly string[] = [];
    const infos: (readonly [number, readonly string[]])[] = [];
    const chunks: Uint8Array[] = [];
    const finish = (trailers: readonly string[], error?: GatewayError): void =>
      resolve({ status, rawHeaders, body: Buffer.concat(chunks).toString('latin1'), trailers, infos, error });
    upstream.call(fill(call), {
      onInfo: (code, headers) => infos.push([code, headers]),
      onHead: (code, headers) => {
        status = code;
        rawHeaders = headers;
      },
      onData: (chunk) => chunks.push(chunk) > 0,
      onEnd: (trailers) => finish(trailers),
      onError: (error) => finish([], error),
    });
  });
}

/** A plain GET of the operator's own target, with what is given laid over it. */
export function fill(call: Partial<UpstreamCall> & { authority: UpstreamCall['authority'] }): UpstreamCall {
  return { tls: false, method: 'GET', path: '/', headers: [], body: undefined, operatorOwn: true, ...call };
}

/** The authority of a test server. */
export const at = (server: { port: number }, host = '127.0.0.1'): { host: string; port: number } => ({ host, port: server.port });

/** Events that do nothing but what is given. */
export function events(given: Partial<UpstreamEvents>): UpstreamEvents {
  return { onHead: () => undefined, onData: () => true, onEnd: () => undefined, onError: () => undefined, ...given };
}

/** Waits for something that another process's end of a connection decides; five seconds at most. */
export async function until(condition: () => boolean): Promise<void> {
  for (const end = performance.now() + 60_000; !condition(); ) {
    if (performance.now() > end) throw new Error(`never: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
