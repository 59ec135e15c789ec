import t from 'tap';
import { parseDate, parseTime } from '../../../src/base/lib/clock.ts';

t.test('times of RFC 3339, and nothing else', async (t) => {
  const noon = Date.UTC(2026, 10, 22, 12);
  for (const text of [
    '2026-11-22T12:00:00Z',
    '2026-11-22t12:00:00.000z',
    '2026-11-22T12:00:00.000000001Z',
    '2026-11-22T14:00:00+02:00',
    '2026-11-21T22:30:00-13:30',
  ])
    t.equal(parseTime(text), noon, text);
  for (const text of [
    '',
    'yesterday',
    '2026-11-22',
    '2026-11-22T12:00Z',
    '2026-11-22T12:00:00',
    '2026-11-22 12:00:00Z',
    '2026-02-29T12:00:00Z',
    '2026-11-31T12:00:00Z',
    '2026-11-22T25:00:00Z',
    '2026-11-22T24:00:00Z',
    '2026-11-22T12:00:60Z',
    '2026-11-22T12:00:00+2:00',
    '1700000000000',
    '+012026-11-22T12:00:00Z',
  ])
    t.equal(parseTime(text), undefined, text);
});

t.test('days', async (t) => {
  t.equal(parseDate('2028-02-29'), Date.UTC(2028, 1, 29));
  for (const text of ['2026-02-29', '2026-04-31', '2026-13-01', '2026-00-10', '2026-1-1', '2026-11-22T00:00:00Z', ''])
    t.equal(parseDate(text), undefined, text);
});
