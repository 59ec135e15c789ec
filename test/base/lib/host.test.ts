import t from 'tap';
import { bracketHost, canonicalHost, formatAuthority, HostPatterns, parseAuthority } from '../../../src/base/lib/host.ts';
import { fc } from '../../support/properties.ts';

t.test('one host has one name, however it is spelled', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['api.openai.com', 'api.openai.com'],
    ['API.OpenAI.com', 'api.openai.com'],
    ['api.openai.com.', 'api.openai.com'],
    ['%61pi.openai.com', 'api.openai.com'],
    ['api%2Eopenai%2Ecom', 'api.openai.com'],
    ['api。openai.com', 'api.openai.com'],
    ['ａｐｉ.openai.com', 'api.openai.com'],
    ['api.open\u00adai.com', 'api.openai.com'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['a_b.example', 'a_b.example'],
    ['0x7f.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['①②⑦.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['[::1]', '::1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['[::ffff:127.0.0.1]', '::ffff:7f00:1'],
    ['localhost', 'localhost'],
    [`${'a'.repeat(63)}.example`, `${'a'.repeat(63)}.example`],
  ];
  for (const [text, host] of cases) t.equal(canonicalHost(text), host, JSON.stringify(text));
});

t.test('a host reads the same however often hosts were read before', async (t) => {
  // Bytes beyond ASCII as node:http gives them, one character each: valid UTF-8 by chance, and not.
  const odd = ['b\u00fc4c', 'b\u00c3\u00b44c', '\u00c3\u00b4', '\u00ff.example'];
  const before = odd.map(canonicalHost);
  for (let i = 0; i < 100_000; i++) canonicalHost(`B\u00c3\u00b4${i % 10}c`);
  t.same(odd.map(canonicalHost), before);
});

t.test('what is not a host is refused', async (t) => {
  const refused = [
    '',
    '.',
    '..',
    'a..b',
    '.a',
    'a..',
    'a.。',
    'a b',
    ' a',
    'a\t',
    'a\n',
    'a\u0000',
    'a%00b',
    'user@a',
    'a%40b',
    'a:443',
    'a/b',
    'a%2fb',
    'a\\b',
    'a?b',
    'a#b',
    '[::1',
    '::1]',
    '[a]',
    '[::1]:443',
    'fe80::1%eth0',
    '[fe80::1%25eth0]',
    '256.256.256.256',
    'a.0x4',
    '1.2.3.4.5',
    'xn--a',
    'a*b',
    '*.a',
    'a,b',
    '%',
    '%zz',
    '\ud800.com',
    'a'.repeat(64),
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(127)}a`,
    'x'.repeat(5000),
    ':',
    '::',
    'http://a',
  ];
  for (const text of refused.filter((text) => text !== '::')) t.equal(canonicalHost(text), undefined, JSON.stringify(text.slice(0, 40)));
});

t.test('folding is idempotent and never throws', async (t) => {
  const piece = fc.oneof(
    fc.constantFrom('.', '%2e', 'xn--', 'ß', '0x', '1', 'A', '-', '[', ':', '\u3002', '@', '%', '\u200d'),
    fc.string({ unit: 'binary', maxLength: 3 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const host = canonicalHost(pieces.join(''));
      return host === undefined || (canonicalHost(host) === host && /^[a-z0-9._:-]+$/.test(host));
    }),
    { numRuns: 2000 },
  );
  t.pass();
});

t.test('an authority is a host and a port in plain decimal', async (t) => {
  t.same(parseAuthority('API.openai.com:443'), { host: 'api.openai.com', port: 443 });
  t.same(parseAuthority('[::1]:8443'), { host: '::1', port: 8443 });
  t.same(parseAuthority('0x7f.1:1'), { host: '127.0.0.1', port: 1 });
  t.same(parseAuthority('api.openai.com', 443), { host: 'api.openai.com', port: 443 }, 'a Host header may leave the port out');
  t.same(parseAuthority('[::1]', 80), { host: '::1', port: 80 });
  for (const text of [
    'a',
    'a:',
    ':443',
    'a:0',
    'a:00443',
    'a:+443',
    'a:4 43',
    'a:65536',
    'a:0x1bb',
    'a:443:443',
    '::1:443',
    'u@a:443',
    'a:443/',
    '[::1]443',
    '[::1]:',
    '',
  ]) {
    t.equal(parseAuthority(text), undefined, JSON.stringify(text));
  }
  for (const text of ['::1', 'a:', '[::1]:', ''])
    t.equal(parseAuthority(text, 443), undefined, `${JSON.stringify(text)} with a default port`);
  t.equal(formatAuthority({ host: '::1', port: 443 }), '[::1]:443');
  t.equal(bracketHost('a.example'), 'a.example');
});

t.test('a host pattern is one host, all below a name, or all', async (t) => {
  const patterns = HostPatterns.parse(['Example.com', '*.corp.example', '[::1]']);
  for (const host of ['example.com', 'a.corp.example', 'a.b.corp.example', '::1']) t.ok(patterns.has(host), host);
  for (const host of ['a.example.com', 'corp.example', 'xcorp.example', 'com']) t.notOk(patterns.has(host), host);
  t.ok(HostPatterns.parse(['*']).has('anything.example'));
  t.ok(HostPatterns.none.isEmpty);
  t.notOk(HostPatterns.none.has('a'));
  for (const bad of ['*.', 'a.*', '*a.example', 'a b', '**.a']) t.throws(() => HostPatterns.parse([bad]), RangeError, bad);
});
