import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { connectPlain, connectThrough, h1Request, type RawResponse, type RequestOptions } from './raw-clients.ts';
import type { HasTeardown } from './temp-dir.ts';
import { startTlsUpstream, type TestUpstream, type UpstreamHandler } from './tls-upstream.ts';
import { towards } from './upstreams.ts';

const HOSTS = [
  'api.openai.com',
  'api.anthropic.com',
  'generativelanguage.googleapis.com',
  'res.openai.azure.com',
  'api.mistral.ai',
  'api.cohere.com',
  'ollama.com',
  'www.example.com',
] as const;

/** The smallest call that OpenAI's chat operation takes. */
export const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };

/** Lets everything pass, so that a test sees what happens beside policy. */
export const ALLOW_ALL = bundleOf('  targets:\n    - {id: all, effect: {decision: allow}}\n');

/** A bundle around `rules`, which begin with a layer two spaces in; empty rules are the empty bundle. */
export function bundleOf(rules: string): string {
  return `schema: gw.policy_bundle.v1\nbundle_id: test\nversion: "7"\n${rules === '' ? '' : `inline_rules:\n${rules}`}`;
}

const answerUsage: UpstreamHandler = (_request, response, body) =>
  void body.then(() => response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'));

export interface Governed {
  readonly gw: TestGateway;
  /** Stands for every provider; what arrived is in `requests`. */
  readonly upstream: TestUpstream;
  /** One request on a connection of its own to the gateway's port. */
  send(options: RequestOptions & { readonly host?: string; readonly port?: number }): Promise<RawResponse>;
  /** One request through a CONNECT. */
  through(authority: string, options: RequestOptions, connectHeaders?: Readonly<Record<string, string>>): Promise<RawResponse>;
  /** A structured call; `action` is laid over a chat call to OpenAI. */
  execute(
    extra?: object,
    action?: object,
    headers?: Record<string, string>,
  ): Promise<{ status: number; headers: Headers; body: Record<string, unknown>; text: string }>;
  /** The record that an answer names. */
  recordOf(answer: RawResponse): Promise<Record<string, unknown>>;
}

/**
 * A gateway before one upstream that stands for all providers, and a way through each door.
 * @param options `hosts`: what it stands for beside those of the common providers
 */
export async function startGoverned(
  t: HasTeardown,
  options: TestGatewayOptions & { readonly handler?: UpstreamHandler; readonly hosts?: readonly string[] } = {},
): Promise<Governed> {
  const { handler = answerUsage, hosts = [], ...rest } = options;
  const all = [...new Set([...HOSTS, ...hosts])];
  const upstream = await startTlsUpstream({ hosts: all, handler });
  t.teardown(() => upstream.close());
  const gw = await startTestGateway(t, { ...rest, env: { ...towards(t, upstream, all), ...rest.env } });
  return {
    gw,
    upstream,
    send: async ({ host, port = gw.port, ...request }) => {
      const socket = await connectPlain(port);
      t.teardown(() => socket.destroy());
      return h1Request(socket, host ?? `127.0.0.1:${port}`, request);
    },
    through: async (authority, request, headers = {}) => {
      const socket = await connectThrough(gw.port, authority, gw.caPem, { headers });
      t.teardown(() => socket.destroy());
      return h1Request(socket, authority.replace(/:443$/, ''), request);
    },
    execute: async (extra = {}, action = {}, headers = {}) => {
      const whole = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT, ...action };
      const body = {
        schema: 'gw.action_request.v2',
        org_id: 'default',
        workload_id: 'default',
        credential_hint: 'sk-caller',
        action: whole,
        ...extra,
      };
      const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', headers, body: JSON.stringify(body) });
      const text = await response.text();
      const json = response.headers.get('content-type') === 'application/json';
      return {
        status: response.status,
        headers: response.headers,
        body: json ? (JSON.parse(text) as Record<string, unknown>) : { text },
        text,
      };
    },
    recordOf: (answer) => gw.record(answer.headers['x-gw-record-id'] ?? ''),
  };
}

/** A chat call as the proxied doors get it; the path is that of redirect mode unless `path` says otherwise. */
export function chat(headers: readonly string[] = [], path = '/proxy/openai/v1/chat/completions', body: unknown = CHAT): RequestOptions {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    method: 'POST',
    path,
    headers: ['Authorization', 'Bearer sk-client', 'Content-Type', 'application/json', ...headers],
    body: text,
  };
}
