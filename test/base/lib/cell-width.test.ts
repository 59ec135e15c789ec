// How many cells a text takes, and what is left of it where there are not so many.
import t from 'tap';
import { cellWidth, cutToCells, padCells, padCellsAhead } from '../../../src/base/lib/cell-width.ts';

const FAMILY = '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}';

t.test('cells are counted as a terminal shows them', async (t) => {
  for (const [text, cells] of [
    ['', 0],
    ['gpt-4o', 6],
    ['サポート', 8],
    ['ｻﾎﾟｰﾄ', 5],
    ['（日本語）', 10],
    ['한국어', 6],
    ['e\u0301\u0323clair', 6],
    [FAMILY, 2],
    ['\u{1f1e9}\u{1f1ea}', 2],
    ['\u2764\ufe0f', 2],
    ['naïve — “x”…', 12],
    ['हिन्दी', 5],
    ['サポート'.repeat(500), 4_000],
    [`x${'e\u0301'.repeat(1_000)} and more`, 1_010],
    [`${'gpt-4o '.repeat(200)}${FAMILY}`, 1_402],
  ] as const)
    t.equal(cellWidth(text), cells, text);
});

t.test('what is cut has room, and no sign of it is halved', async (t) => {
  for (const text of [
    'checkout-service',
    'サポートボット',
    `${FAMILY}${FAMILY} family`,
    'e\u0301\u0323'.repeat(9),
    'ab\\u{202e}\\u{202e}c',
    '日本a語b',
    'मस्त',
  ]) {
    for (let room = 1; room <= 20; room += 1) {
      const cut = cutToCells(text, room);
      t.ok(cellWidth(cut) <= room, `${cut} in ${room}`);
      if (cellWidth(text) <= room) t.equal(cut, text);
      else t.ok(cut.endsWith('…') && text.startsWith(cut.slice(0, -1)), cut);
      t.notMatch(cut, /\\u\{?[0-9a-f]{0,3}…|\u200d…/, cut);
    }
  }
  t.equal(cutToCells('サポート', 6), 'サポ…', 'a wide sign that does not fit is left out');
  t.equal(padCells('日本', 6), '日本  ');
  t.equal(padCellsAhead('日本', 6), '  日本');
});
