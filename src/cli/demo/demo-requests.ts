/* HTTP as the demo's programs speak it: to the gateway, and through it as a proxy. */
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import { request as secureRequest } from 'node:https';
import type { Socket } from 'node:net';
import { connect } from 'node:tls';
import type { DemoPlace } from './demo-place.ts';

const LIMIT_MS = 30_000;

export interface DemoAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface DemoRequest {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON by POST; absent: a GET. */
  readonly body?: unknown;
}

/** A request to the gateway itself. */
export function ask({ url, headers, body }: DemoRequest): Promise<DemoAnswer> {
  return exchange((options, taken) => request(url, { ...options, agent: false }, taken), headers, body);
}

/** The same by CONNECT to another host, whose certificate the gateway makes. */
export async function askThrough(place: DemoPlace, { url, headers, body }: DemoRequest): Promise<DemoAnswer> {
  const { hostname } = new URL(url);
  const [socket, ca] = await Promise.all([tunnel(place.url, hostname), readFile(place.rootFile, 'utf8')]);
  const createConnection = () => connect({ socket, servername: hostname, ca });
  return exchange((options, taken) => secureRequest(url, { ...options, createConnection, defaultPort: 443 }, taken), headers, body);
}

function tunnel(proxy: string, host: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const asked = request(proxy, { method: 'CONNECT', path: `${host}:443`, agent: false, timeout: LIMIT_MS });
    asked.on('connect', (answer, socket) => {
      if (answer.statusCode === 200) resolve(socket);
      else reject(new Error(`the gateway answers ${answer.statusCode ?? 0} to CONNECT ${host}`));
    });
    asked.on('timeout', () => asked.destroy(new Error('the gateway does not answer CONNECT')));
    asked.on('error', reject);
    asked.end();
  });
}

function exchange(
  open: (options: RequestOptions, taken: (answer: IncomingMessage) => void) => ReturnType<typeof request>,
  headers: Readonly<Record<string, string>> = {},
  body?: unknown,
): Promise<DemoAnswer> {
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const form = sent === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(sent) };
  const options = { method: sent === undefined ? 'GET' : 'POST', headers: { ...headers, ...form }, timeout: LIMIT_MS };
  return new Promise((resolve, reject) => {
    const asked = open(options, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
    });
    asked.on('timeout', () => asked.destroy(new Error(`no answer in ${LIMIT_MS / 1000} s`)));
    asked.on('error', reject);
    asked.end(sent);
  });
}
