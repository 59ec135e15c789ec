import { readFileSync } from 'node:fs';
import { PLACE_ORG, PLACE_WORKLOAD } from './control-plane-place.ts';
import type { GatewayProcess } from './gateway-process.ts';
import { ConnectRefused, connectPlain, connectThrough, h1Request } from './raw-clients.ts';
import type { HasTeardown } from './temp-dir.ts';

const HOST = 'api.openai.com';

/** How a call ended, whatever the door. */
export interface PlaceAnswer {
  readonly status: number;
  readonly recordId: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What a caller knows of a gateway. */
export type CalledGateway = Pick<GatewayProcess, 'port' | 'url' | 'caFile'>;

export interface PlaceCall {
  readonly model?: string;
  /** Of the control plane. */
  readonly apiKey?: string | undefined;
  /** Else the one of the place. */
  readonly workload?: string;
}

export type PlaceDoor = 'CONNECT' | 'redirect' | 'structured API';
export const PLACE_DOORS: readonly PlaceDoor[] = ['CONNECT', 'redirect', 'structured API'];

/** One call of a program that has no key of a provider. */
export function callThrough(t: HasTeardown, gateway: CalledGateway, door: PlaceDoor, call: PlaceCall = {}): Promise<PlaceAnswer> {
  return WAYS[door](t, gateway, call);
}

const WAYS: Readonly<Record<PlaceDoor, (t: HasTeardown, gateway: CalledGateway, call: PlaceCall) => Promise<PlaceAnswer>>> = {
  CONNECT: async (t, gateway, call) => {
    const credentials = Buffer.from(`${call.workload ?? PLACE_WORKLOAD}:${call.apiKey ?? ''}`).toString('base64');
    const caPem = readFileSync(gateway.caFile, 'utf8');
    const tunnel = { headers: { 'Proxy-Authorization': `Basic ${credentials}` } };
    const opened = await connectThrough(gateway.port, `${HOST}:443`, caPem, tunnel).catch((error: unknown) => {
      if (error instanceof ConnectRefused) return error;
      throw error;
    });
    if (opened instanceof ConnectRefused) {
      const recordId = /^x-gw-record-id: *(\S+)/im.exec(opened.rawHead)?.[1];
      return { status: opened.status, recordId, body: jsonOf(opened.body) };
    }
    t.teardown(() => opened.destroy());
    const { status, headers, body } = await h1Request(opened, HOST, chatRequest('/v1/chat/completions', call, []));
    opened.destroy();
    return { status, recordId: headers['x-gw-record-id'], body: jsonOf(body.toString()) };
  },
  redirect: async (t, gateway, call) => {
    const socket = await connectPlain(gateway.port);
    t.teardown(() => socket.destroy());
    const named = ['X-GW-Workload-ID', call.workload ?? PLACE_WORKLOAD];
    const keyed = call.apiKey === undefined ? [] : ['Authorization', `Bearer ${call.apiKey}`];
    const request = chatRequest('/proxy/openai/v1/chat/completions', call, [...named, ...keyed]);
    const { status, headers, body } = await h1Request(socket, `127.0.0.1:${gateway.port}`, request);
    socket.destroy();
    return { status, recordId: headers['x-gw-record-id'], body: jsonOf(body.toString()) };
  },
  'structured API': async (_t, gateway, call) => {
    const response = await fetch(`${gateway.url}/v1/actions:execute`, {
      method: 'POST',
      headers: call.apiKey === undefined ? {} : { authorization: `Bearer ${call.apiKey}` },
      body: JSON.stringify({
        schema: 'gw.action_request.v2',
        org_id: PLACE_ORG,
        workload_id: call.workload ?? PLACE_WORKLOAD,
        action: { type: 'ai.infer', method: 'POST', target_host: HOST, params: chatOf(call) },
      }),
    });
    const body = jsonOf(await response.text());
    const named = body['record_id'];
    const recordId = typeof named === 'string' ? named : (response.headers.get('x-gw-record-id') ?? undefined);
    return { status: response.status, recordId, body };
  },
};

function chatOf({ model = 'gpt-4o-mini' }: PlaceCall) {
  return { model, messages: [{ role: 'user', content: 'hello' }] };
}

function chatRequest(path: string, call: PlaceCall, headers: readonly string[]) {
  return { method: 'POST', path, headers: ['Content-Type', 'application/json', ...headers], body: JSON.stringify(chatOf(call)) };
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
