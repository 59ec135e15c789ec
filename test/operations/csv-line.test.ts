// What of a cell a spreadsheet would misread (decision 8.16).
import t from 'tap';
import { csvLine } from '../../src/operations/csv-line.ts';

t.test('cells are quoted where a reader would take something of them for its own', (t) => {
  const cases: readonly (readonly [cell: string, line: string])[] = [
    ['plain', 'plain'],
    ['', ''],
    ['two words', 'two words'],
    ['a,b', '"a,b"'],
    ['a;b', '"a;b"'],
    ['a\tb', '"a\tb"'],
    [' before', '" before"'],
    ['behind ', '"behind "'],
    ['\u00a0wide', '"\u00a0wide"'],
    ['say "hi"', '"say ""hi"""'],
    ['two\r\nlines', '"two\r\nlines"'],
    ['two\nlines', '"two\nlines"'],
    ['0.0000117', '0.0000117'],
    ['ümläut', 'ümläut'],
  ];
  for (const [cell, line] of cases) t.equal(csvLine([cell]), `${line}\r\n`, JSON.stringify(cell));
  t.equal(csvLine(['a', 'b;c', '', 'd']), 'a,"b;c",,d\r\n');
  t.end();
});

t.test('what would be run as a formula is shown as the text that it is', (t) => {
  for (const sign of ['=', '+', '-', '@', '\uff1d', '\uff0b', '\uff0d', '\uff20']) {
    t.equal(csvLine([`${sign}1+1`]), `'${sign}1+1\r\n`, sign);
    t.equal(csvLine([`  ${sign}1+1`]), `'  ${sign}1+1\r\n`, `${sign} behind blanks`);
  }
  t.equal(csvLine(['=HYPERLINK("http://evil.example","x")']), `"'=HYPERLINK(""http://evil.example"",""x"")"\r\n`);
  t.equal(csvLine(['=1;cmd']), `"'=1;cmd"\r\n`);
  for (const sign of ['\t', '\r', '\n']) t.equal(csvLine([`${sign}=1`]), `"'${sign}=1"\r\n`);
  t.equal(csvLine(['a=b', 'a-b']), 'a=b,a-b\r\n', 'within a cell they are signs like others');
  t.end();
});
