// What a browser fetches for the console: how large it is, how it is served, and that nothing else is served with it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { startTestGateway } from '../support/gateway.ts';

const folder = join(packageRoot(), 'build', 'console');
const assets = readdirSync(join(folder, 'assets'));
const page = readFileSync(join(folder, 'index.html'), 'utf8');
const packedSize = (name: string) => readFileSync(join(folder, `${name}.br`)).length;
/** Bytes, compressed: what the first page needs, and everything. */
const FIRST_LOAD = 60 * 1024;
const ALL = 200 * 1024;

t.test('it is small', async (t) => {
  const named = [...page.matchAll(/"(assets\/[^"]+\.(?:js|css))"/g)].map(([, name = '']) => name);
  t.equal(named.length, 2, 'the page names one script and one style');
  const first = packedSize('index.html') + named.reduce((sum, name) => sum + packedSize(name), 0);
  t.ok(first <= FIRST_LOAD, `the first load is ${first} bytes`);
  const all = assets.filter((name) => /\.(js|css)$/.test(name)).reduce((sum, name) => sum + packedSize(`assets/${name}`), 0);
  t.ok(all <= ALL && all > first - packedSize('index.html'), `all of it is ${all} bytes`);
  const imported = [
    ...readFileSync(join(folder, named.find((name) => name.endsWith('.js')) ?? ''), 'utf8').matchAll(/import"\.\/([^"]+)"/g),
  ];
  t.strictSame(imported, [], 'the first script needs no other one at once');
});

t.test('it is built anew when something changes that it takes from other rooms', (t) => {
  const stamp = JSON.parse(readFileSync(join(packageRoot(), 'build', '.console-stamp'), 'utf8')) as { shared: string[] };
  t.ok(stamp.shared.includes('src/base/lib/shown-text.ts'));
  for (const path of stamp.shared) t.match(path, /^src\/(?!console\/)/);
  t.end();
});

t.test('it is served as it was built', async (t) => {
  const gw = await startTestGateway(t);
  const get = (path: string, headers: Readonly<Record<string, string>> = {}) => fetch(gw.url + path, { headers, redirect: 'manual' });
  const door = await get('/console?tz=UTC');
  t.equal(door.status, 302);
  t.equal(door.headers.get('location'), 'console/', 'which holds below a path of a proxy, too');
  for (const path of ['/console/', '/console/calls', '/console/calls?decision=deny&call=1', '/console/of-tomorrow']) {
    const answer = await get(path);
    t.equal(answer.status, 200, path);
    t.match(
      answer.headers.get('content-security-policy'),
      /^default-src 'none'; script-src 'self'; .*require-trusted-types-for 'script'; trusted-types 'none'$/,
    );
    t.match(Object.fromEntries(answer.headers), {
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'cache-control': 'no-cache',
    });
    t.equal(await answer.text(), page);
  }
  for (const name of assets.filter((name) => !name.endsWith('.br'))) {
    const answer = await get(`/console/assets/${name}`, { 'accept-encoding': 'br' });
    t.match(Object.fromEntries(answer.headers), {
      'cache-control': /immutable/,
      'content-encoding': 'br',
      'x-content-type-options': 'nosniff',
    });
    t.ok(Buffer.from(await answer.arrayBuffer()).equals(readFileSync(join(folder, 'assets', name))), name);
    t.ok(brotliDecompressSync(readFileSync(join(folder, 'assets', `${name}.br`))).equals(readFileSync(join(folder, 'assets', name))));
  }
  for (const path of ['/console/a/b', '/console/assets/', '/console/assets/index.html', '/console/assets/..%2findex.html'])
    t.equal((await get(path)).status, 404, path);
});

t.test('the front page of the port that has it leads there', async (t) => {
  const front = async (port: number) => (await fetch(`http://127.0.0.1:${port}/`, { headers: { accept: 'text/html' } })).text();
  const gw = await startTestGateway(t);
  t.match(await front(gw.port), '<a href="console/">');
  const apart = await startTestGateway(t, { env: { GW_MGMT_PORT: '0' } });
  t.notMatch(await front(apart.port), 'console/');
  t.match(await front(apart.gateway.managementPort ?? 0), '<a href="console/">');
});

t.test('it is not there where it is switched off', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_CONSOLE_ENABLED: 'false' } });
  for (const path of ['/console', '/console/', '/console/calls', `/console/assets/${assets[0]}`, '/v1/console/session'])
    t.equal((await fetch(gw.url + path, { redirect: 'manual' })).status, 404, path);
  t.notMatch(await (await fetch(`${gw.url}/v1/openapi.json`)).text(), '/console');
  t.notMatch(await (await fetch(gw.url, { headers: { accept: 'text/html' } })).text(), 'console');
});
