import { type ClientHttp2Session, connect as connectH2, type IncomingHttpHeaders } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';

/** A refusal of CONNECT, with everything that it said. */
export class ConnectRefused extends Error {
  readonly status: number;
  readonly rawHead: string;
  readonly body: string;

  constructor(status: number, rawHead: string, body: string) {
    super(`CONNECT was answered ${status}`);
    this.name = 'ConnectRefused';
    this.status = status;
    this.rawHead = rawHead;
    this.body = body;
  }
}

export interface TunnelOptions {
  /** Further header fields of the CONNECT. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Address of the proxy; default 127.0.0.1. */
  readonly proxyHost?: string;
}

export interface TlsTunnelOptions extends TunnelOptions {
  /** Default: http/1.1 only. */
  readonly alpn?: readonly string[];
  /** SNI and the name that the certificate is checked against; default the host of the authority. */
  readonly servername?: string;
  /** False: a certificate that does not verify is taken all the same. */
  readonly verify?: boolean;
}

/** A TCP connection to a port of this machine. */
export function connectPlain(port: number, host = '127.0.0.1'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ port, host, noDelay: true }, () => {
      socket.off('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/** Opens a CONNECT tunnel and hands over the bare socket. Rejects with {@link ConnectRefused} on any answer but 2xx. */
export async function openTunnel(proxyPort: number, authority: string, options: TunnelOptions = {}): Promise<Socket> {
  const socket = await connectPlain(proxyPort, options.proxyHost);
  const extra = Object.entries(options.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${extra.join('')}\r\n`);
  const head = await readUntil(socket, '\r\n\r\n');
  const status = Number(head.slice(9, 12));
  if (status >= 200 && status < 300) return socket;
  const body = await readToEnd(socket);
  throw new ConnectRefused(status, head, body.toString('utf8'));
}

/** A TLS connection inside a CONNECT tunnel: what an SDK has after its proxy agent has done its work. */
export async function connectThrough(
  proxyPort: number,
  authority: string,
  caPem: string,
  options: TlsTunnelOptions = {},
): Promise<TLSSocket> {
  const socket = await openTunnel(proxyPort, authority, options);
  const host = authority.slice(0, authority.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  const servername = options.servername ?? host;
  const isName = /[a-z]/i.test(servername) && !servername.includes(':');
  return new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      ca: caPem,
      host,
      ...(isName ? { servername } : {}),
      ALPNProtocols: [...(options.alpn ?? ['http/1.1'])],
      rejectUnauthorized: options.verify ?? true,
    });
    tls.once('error', reject);
    tls.once('secureConnect', () => {
      tls.off('error', reject);
      resolve(tls);
    });
  });
}

export interface RequestOptions {
  readonly method?: string;
  readonly path?: string;
  /** Flat name, value list; Host and Content-Length are added when they are missing (h1). */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array;
  /** The client cancels its stream (h2). */
  readonly signal?: AbortSignal | undefined;
}

export interface RawResponse {
  readonly status: number;
  readonly statusText: string;
  /** Flat name, value list as received (h1), lower-case (h2). */
  readonly rawHeaders: readonly string[];
  /** Lower-case names; repeated fields joined by comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly trailers: readonly string[];
  /** 1xx answers that came before. */
  readonly infos: readonly number[];
}

/**
 * Writes one HTTP/1.1 request byte for byte and reads its answer, framing checked strictly. The socket can be used
 * again when the answer was framed.
 * @throws Error when the connection ends before the answer is complete
 */
export async function h1Request(socket: Socket, host: string, options: RequestOptions = {}): Promise<RawResponse> {
  const { method = 'GET', path = '/', headers = [], body } = options;
  const names = new Set(headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()));
  let head = `${method} ${path} HTTP/1.1\r\n`;
  if (!names.has('host')) head += `Host: ${host}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  if (body !== undefined && !names.has('content-length') && !names.has('transfer-encoding')) {
    head += `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  }
  socket.write(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), Buffer.from(body ?? '')]));
  return readResponse(socket, method);
}

/** Reads one HTTP/1.1 answer, 1xx ones before it included. */
export async function readResponse(socket: Socket, method = 'GET'): Promise<RawResponse> {
  const infos: number[] = [];
  for (;;) {
    const head = await readUntil(socket, '\r\n\r\n');
    const [statusLine = '', ...lines] = head.split('\r\n');
    const match = /^HTTP\/1\.[01] (\d{3})(?: (.*))?$/.exec(statusLine);
    if (match === null) throw new Error(`not a status line: ${statusLine}`);
    const status = Number(match[1]);
    if (status >= 100 && status < 200 && status !== 101) {
      infos.push(status);
      continue;
    }
    const rawHeaders = lines.filter((line) => line !== '').flatMap(splitField);
    const headers = joined(rawHeaders);
    const bodiless = method === 'HEAD' || status === 204 || status === 304 || status === 101;
    const { body, trailers } = bodiless ? { body: Buffer.alloc(0), trailers: [] } : await readBody(socket, headers);
    return { status, statusText: match[2] ?? '', rawHeaders, headers, body, trailers, infos };
  }
}

/** A client session on a socket that negotiated h2, for several requests; close it yourself. */
export function h2Session(socket: TLSSocket, authority: string): ClientHttp2Session {
  const session = connectH2(`https://${authority}`, { createConnection: () => socket });
  session.on('error', () => undefined);
  return session;
}

/** One request on an h2 session. */
export function h2Request(session: ClientHttp2Session, options: RequestOptions = {}): Promise<RawResponse> {
  const { method = 'GET', path = '/', headers = [], body, signal } = options;
  const fields: Record<string, string | string[]> = { ':method': method, ':path': path };
  for (let i = 0; i < headers.length; i += 2) fields[(headers[i] ?? '').toLowerCase()] = headers[i + 1] ?? '';
  return new Promise((resolve, reject) => {
    const stream = session.request(fields, { endStream: body === undefined, ...(signal ? { signal } : {}) });
    const chunks: Buffer[] = [];
    const infos: number[] = [];
    let status = 0;
    let rawHeaders: readonly string[] = [];
    let trailers: readonly string[] = [];
    stream.on('headers', (info: IncomingHttpHeaders & { ':status'?: number }) => infos.push(info[':status'] ?? 0));
    stream.on('response', (head) => {
      status = head[':status'] ?? 0;
      rawHeaders = flatten(head);
    });
    stream.on('trailers', (fieldsAfter) => {
      trailers = flatten(fieldsAfter);
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('close', () => {
      if (stream.rstCode !== 0) reject(new Error(`stream reset with code ${stream.rstCode}`));
      else resolve({ status, statusText: '', rawHeaders, headers: joined(rawHeaders), body: Buffer.concat(chunks), trailers, infos });
    });
    if (body !== undefined) stream.end(body);
  });
}

function flatten(head: IncomingHttpHeaders): string[] {
  return Object.entries(head).flatMap(([name, value]) =>
    name.startsWith(':') || value === undefined ? [] : Array.isArray(value) ? value.flatMap((one) => [name, one]) : [name, String(value)],
  );
}

function splitField(line: string): [string, string] {
  const colon = line.indexOf(':');
  if (colon < 1) throw new Error(`not a header field: ${line}`);
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
}

function joined(rawHeaders: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    const value = rawHeaders[i + 1] ?? '';
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  return headers;
}

async function readBody(socket: Socket, headers: Readonly<Record<string, string>>): Promise<{ body: Buffer; trailers: readonly string[] }> {
  if (headers['transfer-encoding'] === 'chunked') return readChunked(socket);
  const length = headers['content-length'];
  if (length === undefined) return { body: await readToEnd(socket), trailers: [] };
  return { body: await readExactly(socket, Number(length)), trailers: [] };
}

async function readChunked(socket: Socket): Promise<{ body: Buffer; trailers: readonly string[] }> {
  const chunks: Buffer[] = [];
  for (;;) {
    const sizeLine = await readUntil(socket, '\r\n');
    if (!/^[0-9a-f]+$/i.test(sizeLine)) throw new Error(`not a chunk size: ${JSON.stringify(sizeLine)}`);
    const size = Number.parseInt(sizeLine, 16);
    if (size === 0) break;
    chunks.push(await readExactly(socket, size));
    if ((await readUntil(socket, '\r\n')) !== '') throw new Error('a chunk is longer than it says');
  }
  const trailers: string[] = [];
  for (let line = await readUntil(socket, '\r\n'); line !== ''; line = await readUntil(socket, '\r\n')) trailers.push(...splitField(line));
  return { body: Buffer.concat(chunks), trailers };
}

/** Reads up to and with `mark`, returns what stands before it. */
export function readUntil(socket: Socket, mark: string): Promise<string> {
  return take(socket, (held) => {
    const at = held.indexOf(mark, 0, 'latin1');
    return at === -1 ? undefined : { value: held.toString('latin1', 0, at), used: at + mark.length };
  });
}

function readExactly(socket: Socket, length: number): Promise<Buffer> {
  return take(socket, (held) => (held.length < length ? undefined : { value: held.subarray(0, length), used: length }));
}

/** All that comes until the other side closes. */
export async function readToEnd(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Collects bytes until `find` is content, and puts back what it did not use. */
function take<T>(socket: Socket, find: (held: Buffer) => { value: T; used: number } | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    let held = Buffer.alloc(0);
    const stop = (): void => {
      socket.off('readable', look);
      socket.off('end', ended);
      socket.off('close', ended);
      socket.off('error', failed);
    };
    const look = (): void => {
      for (let chunk = socket.read() as Buffer | null; chunk !== null; chunk = socket.read() as Buffer | null)
        held = Buffer.concat([held, chunk]);
      const found = find(held);
      if (found === undefined) return;
      stop();
      if (found.used < held.length) socket.unshift(held.subarray(found.used));
      resolve(found.value);
    };
    const failed = (error: Error): void => {
      stop();
      reject(error);
    };
    const ended = (): void => failed(new Error(`the connection ended after ${JSON.stringify(held.toString('latin1', 0, 200))}`));
    socket.on('readable', look);
    socket.on('end', ended);
    socket.on('close', ended);
    socket.on('error', failed);
    look();
  });
}

/** Whether anybody listens on a port of this machine. */
export function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
