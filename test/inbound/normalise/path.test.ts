import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { canonicalPath, pathOnly, queryNames, recordedPath } from '../../../src/inbound/normalise/path.ts';
import { fc } from '../../support/properties.ts';
import { codeOr } from './heads.ts';

t.test('a path without need of change is sent as it came', async (t) => {
  for (const path of [
    '/',
    '/v1/chat/completions',
    '/v1/messages?beta=true',
    '/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse',
    '/v1/a%2Fb',
    '/v1/files/..x/.hidden/a..b/...',
    '/v1/x?next=//evil/../..&u=https://a/b',
    '/v1/x?payment_method=card&method=a&my_method=b',
    '/v1/x/?',
    "/v1/~a!$&'()*+,;=:@",
  ]) {
    t.equal(canonicalPath(path, true), path);
  }
});

t.test('an escape of an unreserved character is decoded, every other one is kept with upper-case digits', async (t) => {
  const table: readonly (readonly [string, string])[] = [
    ['/v1/%63hat/completions', '/v1/chat/completions'],
    ['/v1/%43%48at', '/v1/CHat'],
    ['/v1/a%2fb', '/v1/a%2Fb'],
    ['/v1/%7Euser/%2d%5f', '/v1/~user/-_'],
    ['/v1/x?%61lt=sse&k=%2f%41', '/v1/x?alt=sse&k=%2FA'],
    ['/v1/%2561', '/v1/%2561'],
    ['/v1/models/m%3astreamGenerateContent', '/v1/models/m%3AstreamGenerateContent'],
    ['/v1/x?q=a%0Ab', '/v1/x?q=a%0Ab'],
    ['/v1/a%2ejson', '/v1/a.json'],
    ['', '/'],
    ['?a=1', '/?a=1'],
  ];
  for (const [raw, expected] of table) t.equal(canonicalPath(raw, true), expected, raw);
});

t.test('on an AI host every spelling that a server may read as another path is refused', async (t) => {
  for (const path of [
    '//v1/chat',
    '/v1//chat',
    '/v1/chat//',
    '/v1/../admin',
    '/v1/..',
    '/v1/.',
    '/./v1',
    '/..?x',
    '/v1/%2e%2e/admin',
    '/v1/.%2E/admin',
    '/v1/%2e',
    '/v1/..;x/admin',
    '/v1/..%3Bx/admin',
    '/v1/%2e%2e%3bx/admin',
    '/v1/.%3B',
    '/v1/a%2f..%3bx%2fb',
    '/v1/%252e%252e/admin',
    '/v1/a%252f..%252fb',
    '/v1/%25252e%25252e%253bx/admin',
    '/v1/%2500',
    '/v1/a%c0%afb',
    '/v1/%c0%ae%c0%ae/admin',
    '/v1/models?_method=POST',
    '/v1/models?a=1&$httpMethod=POST',
    '/v1/models?%24httpMethod=POST',
    '/v1/models?X-HTTP-Method-Override=POST',
    '/v1/%2e%2e;/admin',
    '/v1/a%2f..%2fb',
    '/v1/%2e%2e%2fadmin',
    '/v1/..%5cadmin',
    '/v1\\chat',
    '/v1/chat#x',
    '/v1/x?a#b',
    '/v1/a b',
    '/v1/a\tb',
    '/v1/a\r\nHost: x',
    '/v1/\u0000',
    '/v1/\u007f',
    '/v1/é',
    '/v1/x?q=é',
    '/v1/%00',
    '/v1/a%0d%0ab',
    '/v1/%',
    '/v1/%4',
    '/v1/%zz',
    '/v1/x?a=%G1',
    'v1/chat',
    '*',
    'http://x/',
  ]) {
    t.equal(
      codeOr(() => canonicalPath(path, true)),
      'invalid_target',
      JSON.stringify(path),
    );
  }
});

t.test('elsewhere only what cannot stand in a request line is refused', async (t) => {
  for (const path of ['//a/../b\\c', '/%zz', '/%2e%2e', '/caf\u00e9', '/#x']) t.equal(canonicalPath(path, false), path);
  for (const path of ['/a b', '/a\nb', '/\u0000', '/\u20ac', 'x'])
    t.equal(
      codeOr(() => canonicalPath(path, false)),
      'invalid_target',
    );
});

t.test('of a query a record has the names only', async (t) => {
  t.same(queryNames('/x?key=secret&alt=sse&key=again&&=v&bare'), ['key', 'alt', 'bare']);
  t.same(queryNames('/x'), []);
  t.equal(recordedPath('/x?key=secret&alt=sse'), '/x?key&alt');
  t.equal(recordedPath('/x?'), '/x');
  t.equal(pathOnly('/x?a?b'), '/x');
  t.equal(recordedPath(`/${'x'.repeat(3_000)}`), `/${'x'.repeat(2_047)}…`, 'of a very long path the beginning');
  t.equal(recordedPath(`/x?${'k'.repeat(3_000)}=secret`), `/x?${'k'.repeat(2_045)}…`);
});

t.test('the canonical path of a canonical path is itself, and holds nothing that is refused', async (t) => {
  const piece = fc.constantFrom(
    '/',
    '.',
    '..',
    '%2e',
    '%2E',
    '%2f',
    '%5C',
    '%25',
    '%61',
    '%7e',
    'a',
    ';',
    '?',
    '&',
    '=',
    '%',
    '%3A',
    ':',
    '\\',
    '#',
    ' ',
    'é',
  );
  const property = fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
    let once: string;
    try {
      once = canonicalPath(`/${pieces.join('')}`, true);
    } catch (error) {
      return error instanceof GatewayError && error.code === 'invalid_target';
    }
    const segments = pathOnly(once).split(/\/|%2F|%5C/i);
    return canonicalPath(once, true) === once && !segments.includes('..') && !segments.includes('.') && !pathOnly(once).includes('//');
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 5000 }));
  const arbitrary = fc.property(fc.string({ maxLength: 40 }), fc.boolean(), (text, ai) => {
    try {
      return canonicalPath(canonicalPath(text, ai), ai) === canonicalPath(text, ai);
    } catch (error) {
      return error instanceof GatewayError;
    }
  });
  t.doesNotThrow(() => fc.assert(arbitrary, { numRuns: 1000 }));
});

t.test('what was accepted is read by the URL parser as the same path', async (t) => {
  const piece = fc.constantFrom('/', '.', '%2e', '%2f', '%61', 'a', ';', ':', '?', '%41');
  const property = fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
    let path: string;
    try {
      path = canonicalPath(`/${pieces.join('')}`, true);
    } catch {
      return true;
    }
    return new URL(`https://host.test${path}`).pathname === pathOnly(path);
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 3000 }));
});
