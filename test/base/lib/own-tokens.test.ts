import t from 'tap';
import {
  firstBlank,
  holdsAdminToken,
  holdsOwnToken,
  isOwnToken,
  refuseTokenInUrl,
  shownToken,
  withoutOwnTokens,
} from '../../../src/base/lib/own-tokens.ts';
import { cpuClock } from '../../support/cpu-clock.ts';

t.test("the gateway's own keys and tokens are told by how they begin, as they are or behind a scheme", (t) => {
  for (const own of ['gwk_a', 'gwt_a', 'mgk_a', 'mcpk_a', 'gwb_a']) {
    t.ok(isOwnToken(own));
    for (const shown of [own, `Bearer ${own}`, `bearer\t${own}`, `Token   ${own} `]) t.equal(shownToken(shown), own, shown);
  }
  for (const other of ['', 'g', 'gwk', 'GWK_a', 'sk-gwk_a', 'mistral']) t.notOk(isOwnToken(other), other);
  for (const other of ['', 'Bearer', 'Bearer ', 'Bearer sk-a', 'Bearergwk_a']) t.equal(shownToken(other), undefined, other);
  t.same(['Bearer x', 'Bearer\tx y', 'x y\tz', 'Bearer'].map(firstBlank), [6, 6, 1, -1]);
  t.end();
});

/** As the gateway makes them. */
const WHOLE = `gwk_${'aB3-_'.repeat(8)}xyz`;
const escaped = (text: string, percent = '%') =>
  Array.from(text, (character) => percent + character.charCodeAt(0).toString(16).toUpperCase()).join('');

t.test('one in a URL is refused, wherever in it and however often it is encoded, in time that grows with the length', (t) => {
  const held = [
    ...['/a?key=gwk_x', '/a?b=1&key=gwt_x#f', '/a?b?key=mgk_x', '/a?=mcpk_x', 'http://a/?&&k=gwk_', '/gwk_x', '/v1/gwb_x/b', '/a;gwt_x'],
    ...['/a?gwk_x', '/a?gwk_x=1', '/a?b=c=gwk_x', 'http://gwk_x@a/', 'http://u:mgk_x@a/', 'gwk_x.example.com', '/#mcpk_x'],
    ...[`/key-${WHOLE}`, `/a?k=sk-${WHOLE}&b`, `/models/x${WHOLE}:generateContent`],
    ...[
      '/%67wk_x',
      '/%2567wk_x',
      '/%25252567wk_x',
      '/gwk%5Fx',
      '/gwk%255fx',
      '/%%36%37wk_x',
      `/${escaped('gwk_x')}`,
      `/${escaped('mgk_x', '%25')}`,
    ],
  ];
  for (const target of held) {
    t.throws(() => refuseTokenInUrl(target), { code: 'invalid_request' }, target);
    t.notMatch(withoutOwnTokens(target), /(?:gw[bkt]|mgk|mcpk)_[\w-]|%67|%2567/, target);
  }
  const fine = ['/a', '/a?key=sk-gwk_x', '/gwk', '/gw_k', '/GWK_x', '/zgwk_x', '/%zz_', '/100%_', `/a${WHOLE}b`, '/a_b%2Fc', ''];
  for (const target of fine) {
    t.doesNotThrow(() => refuseTokenInUrl(target), target);
    t.equal(withoutOwnTokens(target), target);
  }
  t.equal(withoutOwnTokens(`no key ${WHOLE} here`), 'no key gwk_… here');
  for (const unit of ['?', '&', '?a', 'a', '?&', '=', '?k=gwk', '&=gwk', 'gwk_', 'agwk_', '%67', '%25', '%%36', '_'])
    for (const around of [`/?${unit.repeat(100_000)}`, `/?k${unit.repeat(100_000)}=`]) {
      const clock = cpuClock();
      holdsOwnToken(around);
      t.ok(clock.spent() < 1_000, unit);
    }
  t.end();
});

t.test('an admin token is found in a longer text only where it could be no word', (t) => {
  const long = 'an-admin-token-of-24-chars';
  for (const text of [long, `/a/${long}`, `b=${long}; c`]) t.ok(holdsAdminToken(text, long));
  for (const [text, token] of [
    ['adm1n', undefined],
    ['', ''],
    ['x adm1n', 'adm1n'],
    ['an-admin', long],
  ] as const)
    t.notOk(holdsAdminToken(text, token));
  t.ok(holdsAdminToken('adm1n', 'adm1n'));
  t.throws(() => refuseTokenInUrl(`/a/${long}`, long), { code: 'invalid_request' });
  t.end();
});
