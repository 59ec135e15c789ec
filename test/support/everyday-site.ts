import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import { join } from 'node:path';
import { type WebSocket, WebSocketServer } from 'ws';
import { run } from './child.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

export const SITE_HOSTS = ['www.example.com', 'git.example', 'registry.example', 'pypi.example'];
/** What `/file` holds: with ranges, so that a download can be resumed. */
export const FILE = Buffer.alloc(3_000_000, 'everyday ');

export interface EverydaySite {
  readonly port: number;
  readonly caPem: string;
  /** `METHOD path HTTP-version` of each request, in order. */
  readonly requests: readonly string[];
  /** The bare repository behind `https://git.example/repo.git`. */
  readonly repository: string;
  /** What `PUT /upload` received last. */
  uploaded(): Buffer;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * A web site, a git server, a package registry for npm and an index for pip behind one port: h2, http/1.1 and
 * WebSockets.
 */
export async function startEverydaySite(t: HasTeardown): Promise<EverydaySite> {
  const folder = tempDir(t);
  const repository = join(folder, 'repo.git');
  await run(t, 'git', ['init', '--quiet', '--bare', '--initial-branch=main', repository]);
  await run(t, 'git', ['-C', repository, 'config', 'http.receivepack', 'true']);
  const tarball = await npmTarball(t, folder);
  const wheel = await pythonWheel(t, folder);
  let uploaded = Buffer.alloc(0);
  const requests: string[] = [];
  const routes: Readonly<Record<string, Answer>> = {
    '/': (_request, response) => page(response),
    '/style.css': (_request, response) => send(response, 'text/css', 'p { color: rgb(1, 2, 3); }'),
    '/app.js': (_request, response) => send(response, 'text/javascript', 'document.title = "loaded";'),
    '/pixel.png': (_request, response) => send(response, 'image/png', PIXEL),
    '/echo': (request, response) => void request.pipe(response.writeHead(200, { 'content-type': 'text/plain' })),
    '/file': sendFile,
    '/upload': (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        uploaded = Buffer.concat(chunks);
        send(response, 'text/plain', 'stored');
      });
    },
    '/tiny': (_request, response) => send(response, 'application/json', packument(tarball)),
    '/tiny/-/tiny-1.0.0.tgz': (_request, response) => send(response, 'application/octet-stream', tarball),
    '/simple/tiny/': (_request, response) => send(response, 'text/html', `<a href="/${WHEEL}">${WHEEL}</a>`),
    [`/${WHEEL}`]: (_request, response) => send(response, 'application/zip', wheel),
  };
  const { caPem, certPem, keyPem } = certificateOf('good', SITE_HOSTS);
  const server = createSecureServer({ cert: certPem, key: keyPem, allowHTTP1: true });
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    requests.push(`${request.method} ${path} ${request.httpVersion}`);
    response.on('error', () => undefined);
    if (path.startsWith('/repo.git/')) serveGit(folder, request, response);
    else (routes[path] ?? notFound)(request, response);
  };
  server.on('request', onRequest as never);
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (accepted: WebSocket) =>
      accepted.on('message', (text) => accepted.send(`echo ${String(text)}`)),
    );
  });
  const open = trackSockets(server);
  t.teardown(() => closeServer(server, open));
  return { port: await listenOnFreePort(server), caPem, requests, repository, uploaded: () => uploaded };
}

const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const WHEEL = 'tiny-1.0.0-py3-none-any.whl';

function send(response: ServerResponse, type: string, body: string | Buffer): void {
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}

function notFound(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(404).end();
}

function page(response: ServerResponse): void {
  const resources = '<link rel="stylesheet" href="/style.css"><script src="/app.js" defer></script>';
  send(
    response,
    'text/html',
    `<!doctype html><title>A page</title>${resources}<p>hello <img src="/pixel.png"> <a id="get" href="/file" download>file</a>`,
  );
}

function sendFile(request: IncomingMessage, response: ServerResponse): void {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  const head = { 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes', 'content-length': FILE.length - from };
  if (from === 0) response.writeHead(200, head).end(FILE);
  else response.writeHead(206, { ...head, 'content-range': `bytes ${from}-${FILE.length - 1}/${FILE.length}` }).end(FILE.subarray(from));
}

/** CGI (RFC 3875) to git's own server program. */
function serveGit(root: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', 'https://git.example');
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? '',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
  });
  request.pipe(child.stdin);
  child.stdin.on('error', () => undefined);
  let head: Buffer | undefined = Buffer.alloc(0);
  child.stdout.on('data', (chunk: Buffer) => {
    if (head === undefined) return void response.write(chunk);
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end === -1) return undefined;
    const fields = Object.fromEntries(
      head
        .toString('latin1', 0, end)
        .split('\r\n')
        .map((line) => line.split(': ', 2) as [string, string]),
    );
    const { Status: status = '200', ...others } = fields;
    response.writeHead(Number.parseInt(status, 10), others);
    response.write(head.subarray(end + 4));
    head = undefined;
    return undefined;
  });
  child.on('close', () => response.end());
}

async function npmTarball(t: HasTeardown, folder: string): Promise<Buffer> {
  const source = join(folder, 'package');
  mkdirSync(source);
  writeFileSync(join(source, 'package.json'), JSON.stringify({ name: 'tiny', version: '1.0.0' }));
  writeFileSync(join(source, 'index.js'), 'module.exports = "tiny";\n');
  await run(t, 'tar', ['-czf', join(folder, 'tiny.tgz'), '-C', folder, 'package']);
  return readFileSync(join(folder, 'tiny.tgz'));
}

function packument(tarball: Buffer): string {
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const version = { name: 'tiny', version: '1.0.0', dist: { tarball: 'https://registry.example/tiny/-/tiny-1.0.0.tgz', integrity } };
  return JSON.stringify({ name: 'tiny', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } });
}

async function pythonWheel(t: HasTeardown, folder: string): Promise<Buffer> {
  const source = join(folder, 'wheel');
  const info = join(source, 'tiny-1.0.0.dist-info');
  mkdirSync(info, { recursive: true });
  writeFileSync(join(source, 'tiny.py'), 'WORD = "tiny"\n');
  writeFileSync(join(info, 'METADATA'), 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n');
  writeFileSync(join(info, 'WHEEL'), 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n');
  writeFileSync(
    join(info, 'RECORD'),
    'tiny.py,,\ntiny-1.0.0.dist-info/METADATA,,\ntiny-1.0.0.dist-info/WHEEL,,\ntiny-1.0.0.dist-info/RECORD,,\n',
  );
  const file = join(folder, WHEEL);
  await run(t, 'python3', ['-m', 'zipfile', '-c', file, join(source, 'tiny.py'), info]);
  return existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
}
