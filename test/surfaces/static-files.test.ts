// What the web surface needs for pages: files as they are, redirects, cookies. Over a real port.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { ConnectionShares } from '../../src/base/lib/connection-shares.ts';
import { cookieIn, cookieText } from '../../src/base/lib/cookie.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { BufferBudget } from '../../src/pipeline/body/buffer-budget.ts';
import { ANYONE } from '../../src/surfaces/http/proofs.ts';
import type { Route, RouteAnswer } from '../../src/surfaces/http/route.ts';
import { Router } from '../../src/surfaces/http/router.ts';
import { SmallServer } from '../../src/surfaces/http/small-server.ts';
import { filesIn, hashedName, StaticFiles } from '../../src/surfaces/http/static-files.ts';
import { runningClock as clock } from '../support/fake-clock.ts';
import { connectPlain, h1Request } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';

async function served(t: Test, routes: readonly Route[]): Promise<{ readonly port: number; readonly url: string }> {
  const router = new Router({
    routes,
    authenticator: { principal: () => ANYONE },
    log: silentLogger,
    events: new EventBus(silentLogger),
    callerIp: ({ remoteAddress }) => remoteAddress,
  });
  const server = new SmallServer({
    host: '127.0.0.1',
    port: 0,
    clock,
    connections: new ConnectionShares({ strangers: 100, known: 100, each: 100, clock }),
    bodies: new BufferBudget(1_000_000, clock),
    onArrival: (arrival) => void router.handle(arrival),
  });
  const port = await server.open();
  t.teardown(() => server.close(AbortSignal.abort()));
  return { port, url: `http://127.0.0.1:${port}` };
}

function routeOf(path: string, handle: (file: string) => RouteAnswer): Route {
  return { method: 'GET', path, auth: 'none', summary: path, handle: ({ params }) => handle(params['file'] ?? '') };
}

const SCRIPT = 'export const answer = 42;\n'.repeat(50);

async function site(t: Test): Promise<{ readonly port: number; readonly url: string }> {
  const folder = join(tempDir(t), 'site');
  mkdirSync(join(folder, 'parts'), { recursive: true });
  writeFileSync(join(folder, 'app-0123abcd.js'), SCRIPT);
  writeFileSync(join(folder, 'app-0123abcd.js.br'), brotliCompressSync(SCRIPT));
  writeFileSync(join(folder, 'app-0123abcd.js.gz'), gzipSync(SCRIPT));
  writeFileSync(join(folder, 'parts', 'page-settings.html'), '<p>Hello</p>');
  writeFileSync(join(folder, '.secret.txt'), 'hidden');
  writeFileSync(join(folder, '..', 'outside.txt'), 'outside');
  symlinkSync(join(folder, '..', 'outside.txt'), join(folder, 'link.txt'));
  const files = new StaticFiles(filesIn(folder));
  const route: Route = {
    ...{ method: 'GET', path: '/site/{*file}', auth: 'none', summary: 'files' },
    handle: (request) => files.answer(request.params['file'] ?? '', request),
  };
  return served(t, [route]);
}

t.test('a file is served as it is, and by the smaller form that a client takes', async (t) => {
  const { port } = await site(t);
  const ask = async (path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET') => {
    const socket = await connectPlain(port);
    const answer = await h1Request(socket, 'localhost', { method, path, headers: Object.entries(headers).flat() });
    socket.destroy();
    return answer;
  };
  const path = '/site/app-0123abcd.js';
  const plain = await ask(path);
  t.match(plain, { status: 200, headers: { 'content-type': 'text/javascript; charset=utf-8', vary: 'Accept-Encoding' } });
  t.match(plain.headers, { 'cache-control': 'public, max-age=31536000, immutable', 'x-content-type-options': 'nosniff' });
  t.equal(String(plain.body), SCRIPT);
  t.equal(plain.headers['content-encoding'], undefined);
  const brotli = await ask(path, { 'Accept-Encoding': 'gzip, br' });
  t.equal(brotli.headers['content-encoding'], 'br');
  t.equal(String(brotliDecompressSync(brotli.body)), SCRIPT);
  t.equal((await ask(path, { 'Accept-Encoding': 'br;q=0, GZIP;q=0.5' })).headers['content-encoding'], 'gzip');
  t.equal((await ask(path, { 'Accept-Encoding': 'zstd, *;q=0' })).headers['content-encoding'], undefined);
  const head = await ask(path, {}, 'HEAD');
  t.same([head.status, head.headers['content-length'], head.body.length], [200, String(SCRIPT.length), 0]);

  const page = await ask('/site/parts/page-settings.html');
  t.match(page.headers, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' });
  t.equal(page.headers['vary'], undefined);
});

t.test('a client that has a form already is told so', async (t) => {
  const { url } = await site(t);
  const path = `${url}/site/app-0123abcd.js`;
  const tag = async (headers: Readonly<Record<string, string>>) => (await fetch(path, { headers })).headers.get('etag') ?? '';
  const [plain, brotli] = [await tag({ 'Accept-Encoding': 'identity' }), await tag({ 'Accept-Encoding': 'br' })];
  t.not(plain, brotli, 'forms have tags of their own');
  const again = (tags: string) => fetch(path, { headers: { 'Accept-Encoding': 'br', 'If-None-Match': tags } });
  for (const tags of [brotli, `"other", W/${brotli}`, '*']) {
    const answer = await again(tags);
    t.same([answer.status, await answer.text(), answer.headers.get('etag')], [304, '', brotli]);
    t.match(answer.headers.get('cache-control'), 'immutable');
  }
  t.equal((await again(plain)).status, 200);
});

t.test('no name leads out of the folder, to what is hidden, or to a compressed form by itself', async (t) => {
  const { port } = await site(t);
  for (const name of [
    ...['../outside.txt', '%2e%2e/outside.txt', '..%2foutside.txt', 'parts/../../outside.txt', 'parts%5c..%5c..%5coutside.txt'],
    ...['.secret.txt', 'link.txt', 'app-0123abcd.js.br', 'parts', 'parts/', '', '//etc/passwd', '/etc/passwd', 'constructor'],
  ]) {
    const socket = await connectPlain(port);
    const { status } = await h1Request(socket, 'localhost', { method: 'GET', path: `/site/${name}`, headers: [] });
    socket.destroy();
    t.equal(status, 404, name);
  }
});

t.test('a file of a kind that nobody knows is a mistake in the program; a name says what is inside', async (t) => {
  t.throws(() => new StaticFiles(new Map([['a.exe', Buffer.from('x')]])), TypeError);
  const [one, other] = [hashedName('page.css', Buffer.from('a')), hashedName('page.css', Buffer.from('b'))];
  t.match(one, /^page-[0-9a-f]{16}\.css$/);
  t.not(one, other);
});

t.test('an answer can send a browser elsewhere, with cookies', async (t) => {
  const name = '__Host-gw-session' as const;
  const { url } = await served(t, [
    routeOf('/in', () => ({
      status: 303,
      redirect: '/console?tab=1',
      cookies: [
        { name, value: 'abc', maxAgeSeconds: 3_600, sameSite: 'lax' },
        { name: '__Host-gw-state', value: '', maxAgeSeconds: 0, sameSite: 'strict' },
      ],
    })),
    routeOf('/out', () => ({ status: 302, redirect: 'https://id.example/authorize?x=1' })),
    ...['//evil.example', '/\\evil.example', 'http://id.example', '/a\r\nX: y', 'javascript:alert(1)'].map((redirect, at) =>
      routeOf(`/bad/${at}`, () => ({ status: 302, redirect })),
    ),
    routeOf('/bad/cookie', () => ({ status: 200, text: '', cookies: [{ name, value: 'a; Domain=evil.example', sameSite: 'lax' }] })),
  ]);
  const ask = (path: string) => fetch(`${url}${path}`, { redirect: 'manual' });
  const signedIn = await ask('/in');
  t.same([signedIn.status, signedIn.headers.get('location')], [303, '/console?tab=1']);
  t.equal(signedIn.headers.get('cache-control'), 'no-store');
  t.same(signedIn.headers.getSetCookie(), [
    '__Host-gw-session=abc; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=3600',
    '__Host-gw-state=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0',
  ]);
  t.equal((await ask('/out')).headers.get('location'), 'https://id.example/authorize?x=1');
  for (const path of ['/bad/0', '/bad/1', '/bad/2', '/bad/3', '/bad/4', '/bad/cookie']) t.equal((await ask(path)).status, 500, path);
});

t.test('a cookie is read by its exact name, and not at all when it was sent twice', async (t) => {
  const name = '__Host-gw-session';
  const set = cookieText({ name, value: 'a=b', sameSite: 'strict' }).split(';')[0];
  t.equal(cookieIn(`x=1; ${set}; y`, name), 'a=b');
  t.equal(cookieIn(`x${set}`, name), undefined);
  t.equal(cookieIn(`${name.toLowerCase()}=a`, name), undefined);
  t.equal(cookieIn(`${name}=a; ${name}=b`, name), undefined);
  t.equal(cookieIn(undefined, name), undefined);
  t.equal(cookieIn(`${name}=`, name), '');
});
