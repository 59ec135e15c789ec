import t from 'tap';
import { firstBlank, isOwnToken, refuseTokenInQuery, shownToken } from '../../../src/base/lib/own-tokens.ts';
import { cpuClock } from '../../support/cpu-clock.ts';

t.test("the gateway's own keys and tokens are told by how they begin, as they are or behind a scheme", (t) => {
  for (const own of ['gwk_a', 'gwt_a', 'mgk_a', 'mcpk_a']) {
    t.ok(isOwnToken(own));
    for (const shown of [own, `Bearer ${own}`, `bearer\t${own}`, `Token   ${own} `]) t.equal(shownToken(shown), own, shown);
  }
  for (const other of ['', 'g', 'gwk', 'GWK_a', 'sk-gwk_a', 'mistral']) t.notOk(isOwnToken(other), other);
  for (const other of ['', 'Bearer', 'Bearer ', 'Bearer sk-a', 'Bearergwk_a']) t.equal(shownToken(other), undefined, other);
  t.same(['Bearer x', 'Bearer\tx y', 'x y\tz', 'Bearer'].map(firstBlank), [6, 6, 1, -1]);
  t.end();
});

t.test('one in a query is refused, wherever in it, in time that grows with the length', (t) => {
  for (const target of ['/a?key=gwk_x', '/a?b=1&key=gwt_x#f', '/a?b?key=mgk_x', '/a?=mcpk_x', 'http://a/?&&k=gwk_'])
    t.throws(() => refuseTokenInQuery(target), { code: 'invalid_request' }, target);
  for (const target of ['/a', '/gwk_x', '/a?gwk_x', '/a?key=sk-gwk_x', '/a?b=c=gwk_x'])
    t.doesNotThrow(() => refuseTokenInQuery(target), target);
  for (const unit of ['?', '&', '?a', 'a', '?&', '=', '?k=gwk', '&=gwk'])
    for (const around of [`/?${unit.repeat(200_000)}`, `/?k${unit.repeat(200_000)}=`]) {
      const clock = cpuClock();
      refuseTokenInQuery(around);
      t.ok(clock.spent() < 1_000, unit);
    }
  t.end();
});
