// Which route a path leads to: the tree answers as a look at every route in the order of the table would.
import t from 'tap';
import type { Route } from '../../src/surfaces/http/route.ts';
import { RouteTree } from '../../src/surfaces/http/route-tree.ts';

function routeOf(method: Route['method'], path: string, more: Partial<Route> = {}): Route {
  return { method, path, auth: 'none', summary: path, handle: () => ({ status: 200 }), ...more };
}

function found(tree: RouteTree, path: string, ambient = false): readonly unknown[] {
  return tree.matches(path, ambient).map(({ route, params }) => [`${route.method} ${route.path}`, params]);
}

t.test('words, names, and both at one place in the order of the table', async (t) => {
  const tree = new RouteTree([
    routeOf('GET', '/'),
    routeOf('GET', '/v1/{kind}/{id}'),
    routeOf('POST', '/v1/actions:execute'),
    routeOf('GET', '/v1/things/export'),
    routeOf('PUT', '/v1/things/{thing}'),
    routeOf('DELETE', '/v1/things/{thing}/parts/{part}'),
  ]);
  t.strictSame(found(tree, '/'), [['GET /', {}]]);
  t.strictSame(found(tree, '/v1/actions:execute'), [['POST /v1/actions:execute', {}]]);
  t.strictSame(found(tree, '/v1/things/export'), [
    ['GET /v1/{kind}/{id}', { kind: 'things', id: 'export' }],
    ['GET /v1/things/export', {}],
    ['PUT /v1/things/{thing}', { thing: 'export' }],
  ]);
  t.strictSame(found(tree, '/v1/things/a/parts/b'), [['DELETE /v1/things/{thing}/parts/{part}', { thing: 'a', part: 'b' }]]);
  for (const path of ['', '/v1', '/v1/', '/v1/things', '/v1/things/', '//', '/v1/things/a/', '/v1/things/a/parts', '/V1/things/a'])
    t.strictSame(found(tree, path), [], path);
});

t.test('a value is decoded, with the slashes that were encoded; a word is not', async (t) => {
  const tree = new RouteTree([routeOf('GET', '/things/{id}')]);
  t.strictSame(found(tree, '/things/a%2Fb%20c'), [['GET /things/{id}', { id: 'a/b c' }]]);
  for (const path of ['/%74hings/a', '/things%2Fa', '/things/%', '/things/%ff', '/things/%zz']) t.strictSame(found(tree, path), [], path);
});

t.test('what is left of a path is the value of a wildcard, and leads nowhere else', async (t) => {
  const tree = new RouteTree([routeOf('GET', '/assets/{*file}'), routeOf('GET', '/assets/{id}')]);
  t.strictSame(found(tree, '/assets/a/b%20c.js'), [['GET /assets/{*file}', { file: 'a/b c.js' }]]);
  t.strictSame(found(tree, '/assets/a.js'), [
    ['GET /assets/{*file}', { file: 'a.js' }],
    ['GET /assets/{id}', { id: 'a.js' }],
  ]);
  for (const bad of ['', 'a//b', 'a/../b', '../a/b', '%2e%2e/a', 'a%2Fb/c', 'a%5Cb/c', './a', 'a/%00/b', 'a/%/b', 'a/b/'])
    t.strictSame(
      found(tree, `/assets/${bad}`).filter((one) => String(one).startsWith('GET /assets/{*file}')),
      [],
      bad,
    );
  t.strictSame(found(tree, '/assets'), []);
});

t.test('the ambient port has the routes that say so', async (t) => {
  const tree = new RouteTree([routeOf('GET', '/a', { ambient: true }), routeOf('POST', '/a')]);
  t.strictSame(found(tree, '/a', true), [['GET /a', {}]]);
  t.equal(found(tree, '/a').length, 2);
});

t.test('a long path costs no more than the tree is deep', async (t) => {
  const tree = new RouteTree([routeOf('GET', '/{a}/{b}/{c}/{d}'), routeOf('GET', '/{a}/b/{c}/d')]);
  t.strictSame(found(tree, '/x'.repeat(100_000)), []);
});
