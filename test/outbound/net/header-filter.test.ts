import t from 'tap';
import { filterRequestHeaders, filterResponseHeaders, seenVia, via } from '../../../src/outbound/net/header-filter.ts';
import { fc } from '../../support/properties.ts';

t.test('what belongs to one hop, to framing or to this gateway never goes upstream (decision 3.21)', async (t) => {
  const raw = [
    ...[
      'Host',
      'a.example',
      'User-Agent',
      'x/1',
      'Content-Length',
      '5',
      'Transfer-Encoding',
      'chunked',
      'Connection',
      'keep-alive, X-Hop',
      'X-Hop',
      '1',
    ],
    ...[
      'Keep-Alive',
      'timeout=5',
      'TE',
      'trailers',
      'Trailer',
      'X-Sum',
      'Upgrade',
      'h2c',
      'HTTP2-Settings',
      'AAMAAABk',
      'Expect',
      '100-continue',
    ],
    ...[
      'Proxy-Authorization',
      'Basic eA==',
      'Proxy-Connection',
      'keep-alive',
      'PROXY-ANYTHING',
      '1',
      'X-GW-Org-ID',
      'o',
      'x-gw-new-one',
      'o',
    ],
    ...['GW-Admin-Token', 'secret', 'X-HTTP-Method-Override', 'DELETE', 'x-http-method', 'DELETE', 'X-Method-Override', 'DELETE'],
    ...['content-TYPE', 'application/json', 'X-Twice', '1', 'X-Twice', '2', 'Authorization', 'Bearer sk-real'],
  ];
  t.same(filterRequestHeaders(raw), [
    ...['User-Agent', 'x/1', 'content-TYPE', 'application/json', 'X-Twice', '1', 'X-Twice', '2', 'Authorization', 'Bearer sk-real'],
  ]);
});

t.test('a Connection field further down still nominates what stands before it', async (t) => {
  t.same(
    filterRequestHeaders([
      'X-Secret',
      '1',
      'X-Other',
      '2',
      'connection',
      'close, x-third',
      'Connection',
      'x-secret , close',
      'X-Third',
      '3',
    ]),
    ['X-Other', '2'],
  );
});

t.test('a token of this gateway never leaves, in whatever field and behind whatever scheme', async (t) => {
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
  for (const value of [
    ...['gwk_1', 'gwt_1', 'mgk_1', 'mcpk_1', 'Bearer gwk_1', 'Bearer\tgwk_1', 'bearer  gwt_1', 'Token mcpk_1', 'adm1n', 'Bearer adm1n'],
    ...[basic('ci:gwt_1'), basic('gwk_1:'), basic('gwk_1'), basic('x:adm1n'), `basic ${Buffer.from('x:gwk_2').toString('base64')}`],
  ]) {
    t.same(filterRequestHeaders(['X-Any', value, 'A', 'b'], { adminToken: 'adm1n' }), ['A', 'b'], value);
  }
  const long = 'an-admin-token-of-24-chars';
  for (const field of [
    ...[
      ['Cookie', 'a=b; session=gwk_1; c=d'],
      ['Cookie', 'session="gwt_1"'],
      ['Cookie', `s=${long}`],
      ['Set-Cookie', 'k=mgk_1'],
    ],
    ...[
      ['Referer', 'https://a.example/?key=gwk_1'],
      ['Referer', 'https://a.example/%67wk_1'],
      ['Referer', `https://a.example/${long}/`],
    ],
    ...[
      ['Origin', 'https://gwb_1.example'],
      ['Link', '<https://a/mcpk_1>'],
      ['X-Any', '{"key":"gwk_1"}'],
      ['X-Any', 'gwk%5F1'],
    ],
    ...[
      ['Sec-WebSocket-Protocol', 'realtime, openai-insecure-api-key.gwk_1'],
      ['gwk_1', 'x'],
      ['X-Any', basic('ci:x gwt_1')],
    ],
  ])
    t.same(filterRequestHeaders([...field, 'A', 'b'], { adminToken: long }), ['A', 'b'], field.join(': '));
  const fine = ['A', 'sk-gwk_1', 'B', 'gwk1', 'C', 'Bearer sk-ant', 'D', basic('user:password'), 'E', 'm', 'F', ''];
  t.same(filterRequestHeaders(fine, { adminToken: 'adm1n' }), fine);
  t.same(filterRequestHeaders(['E', ''], { adminToken: '' }), ['E', ''], 'an empty admin token matches nothing');
});

t.test('a credential, the forced encoding and Via take the place of what the client said', async (t) => {
  const raw = ['Authorization', 'Bearer sk-client', 'X-Api-Key', 'k', 'Accept-Encoding', 'gzip, br', 'Via', '1.1 corp'];
  const drop = new Set(['authorization', 'x-api-key']);
  t.same(filterRequestHeaders(raw, { drop, identity: true, via: via('n1') }), [
    'Via',
    '1.1 corp',
    'Accept-Encoding',
    'identity',
    'Via',
    '1.1 gw-n1',
  ]);
});

t.test('a request that passed this gateway is recognised by Via, and no other one is (decision 3.13)', async (t) => {
  t.ok(seenVia(['Via', '1.1 gw-n1'], 'n1'));
  t.ok(seenVia(['A', 'b', 'vIA', '1.0 fred, HTTP/1.1\tGW-N1 (comment)'], 'n1'));
  t.ok(seenVia(['Via', '1.1 other', 'Via', '1.1 x,1.1 gw-n1,1.1 y'], 'n1'));
  t.notOk(seenVia(['Via', '1.1 gw-n10, 1.1 gw-n, gw-n1'], 'n1'));
  t.notOk(seenVia(['X-Via', '1.1 gw-n1', 'Vib', '1.1 gw-n1'], 'n1'));
});

// Holds: upstreams-speak-in-their-own-name
t.test("an upstream's head loses hop-by-hop fields and everything that speaks in our name (decision 3.22)", async (t) => {
  const raw = [
    ...[
      'Date',
      'now',
      'Connection',
      'X-Hop, close',
      'X-Hop',
      '1',
      'X-GW-Decision',
      'allow',
      'Alt-Svc',
      'h3=":443"',
      'Keep-Alive',
      'timeout=5',
    ],
    ...[
      'Transfer-Encoding',
      'chunked',
      'Trailer',
      'X-Sum',
      'Upgrade',
      'h2',
      'Proxy-Authenticate',
      'Basic',
      'Set-Cookie',
      'a=1',
      'set-cookie',
      'b=2',
    ],
    ...['Content-Length', '12', 'Content-Type', 'application/json', 'Content-Encoding', 'gzip'],
  ];
  const kept = ['Date', 'now', 'Set-Cookie', 'a=1', 'set-cookie', 'b=2', 'Content-Type', 'application/json', 'Content-Encoding', 'gzip'];
  t.same(filterResponseHeaders(raw), { headers: kept, contentLength: 12, contentType: 'application/json', contentEncoding: 'gzip' });
  t.same(filterResponseHeaders(['Content-Length', '12'], { keepLength: true }).headers, ['Content-Length', '12']);
  for (const bad of ['', '-1', '1.5', '99999999999999999999', 'x'])
    t.equal(filterResponseHeaders(['Content-Length', bad]).contentLength, undefined, bad);
});

t.test('on any input the filters throw nothing, keep pairs whole, and are stable when run twice', async () => {
  const field = fc.oneof(
    fc.string(),
    fc.constantFrom('Connection', 'X-GW-A', 'Via', 'gwk_x', 'Basic ', 'Basic %%%', 'close, ,x', 'Proxy-'),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(field, field)), (pairs) => {
      const raw = pairs.flat();
      const once = filterRequestHeaders(raw);
      const answer = filterResponseHeaders(raw);
      seenVia(raw, 'n');
      return once.length % 2 === 0 && answer.headers.length % 2 === 0 && filterRequestHeaders(once).join('\0') === once.join('\0');
    }),
    { numRuns: 300 },
  );
});
