// What is there is what is read: what a stranger's text becomes on each face.
import t from 'tap';
import { cutShown, type Face, shownJson, shownLines, shownText, terminalOutput } from '../../../src/base/lib/shown-text.ts';
import { HOSTILE, hiddenIn, unseenIn } from '../../support/hostile-text.ts';

const FACES: readonly Face[] = ['terminal', 'page', 'line', 'slack', 'discord', 'teams', 'google_chat', 'mail'];

const ENGLAND = '\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}';

t.test('what cannot be seen, or acts, is written out', async (t) => {
  for (const [what, text, shown] of [
    ['escape sequences', '\u001b[31m\u009b2J\u0007', '\\u{1b}[31m\\u{9b}2J\\u{7}'],
    ['line breaks of every kind', 'a\nb\r\nc\u0085d\u2028e\u2029f\u000bg', 'a\\u{a}b\\u{d}\\u{a}c\\u{85}d\\u{2028}e\\u{2029}f\\u{b}g'],
    ['directions', '\u202e\u2066\u2069\u061c\u200e\u200f', '\\u{202e}\\u{2066}\\u{2069}\\u{61c}\\u{200e}\\u{200f}'],
    ['tags', 'a\u{e0001}\u{e0068}\u{e0069}\u{e007f}', 'a\\u{e0001}\\u{e0068}\\u{e0069}\\u{e007f}'],
    ['tags behind a flag', '\u{1f3f4}\u{e0067}\u{e0062}', '\u{1f3f4}\\u{e0067}\\u{e0062}'],
    [
      'fillers',
      '\u3164\u115f\u1160\uffa0\u2800\u00ad\u034f\u17b4\u180e',
      '\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}\\u{2800}\\u{ad}\\u{34f}\\u{17b4}\\u{180e}',
    ],
    ['variation selectors', 'a\ufe00\ufe0f\u{e0100}\u{e01ef}', 'a\\u{fe00}\\u{fe0f}\\u{e0100}\\u{e01ef}'],
    [
      'a flag of tags that is not whole',
      '\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}',
      '\u{1f3f4}\\u{e0067}\\u{e0062}\\u{e0065}\\u{e006e}\\u{e0067}',
    ],
    ['more tags behind one', `${ENGLAND}\u{e0061}`, `${ENGLAND}\\u{e0061}`],
    ['its tags without the flag', ENGLAND.slice(2, 6), '\\u{e0067}\\u{e0062}'],
    ['a joiner between Latin letters and digits', 'a\u200c1\u200cb', 'a\\u{200c}1\\u{200c}b'],
    ['more than one behind an emoji', '❤\ufe0f\ufe0f\ufe0e', '❤\ufe0f\\u{fe0f}\\u{fe0e}'],
    ['joiners where nothing is joined', 'a\u200db\u200cc\u200bd\u2060\ufeff', 'a\\u{200d}b\\u{200c}c\\u{200b}d\\u{2060}\\u{feff}'],
    ['two joiners', 'می\u200c\u200cخ', 'می\\u{200c}\\u{200c}خ'],
    ['the wide blank between what is not wide', 'a)\u3000POST', 'a)\\u{3000}POST'],
    ['blanks', 'a\u2003b\u00a0\u00a0c\u00a0', 'a\\u{2003}b\\u{a0}\\u{a0}c\\u{a0}'],
    ['what has no character', '\ud800 \ue000 \u{fffff} \u{10ffff} \uffff', '\\u{d800} \\u{e000} \\u{fffff} \\u{10ffff} \\u{ffff}'],
    ['notes between lines', '\ufff9a\ufffab\ufffb\ufffc', '\\u{fff9}a\\u{fffa}b\\u{fffb}\\u{fffc}'],
    ['marks upon marks', `z${'\u0335'.repeat(6)}`, 'z\u0335\u0335\u0335\u0335\\u{335}\\u{335}'],
    ['a mark on what is ours', '\u0301a "\u0338', '\\u{301}a "\\u{338}'],
    ['a mark behind what was written out', 'a\u202e\u0301', 'a\\u{202e}\\u{301}'],
    ['what looks like a sign that was written out', '\\u{202e} \\\\u{a}', '\\u{5c}u{202e} \\\\u{5c}u{a}'],
  ] as const)
    t.equal(shownText(text, 'terminal'), shown, what);
});

t.test('texts of people stay as they are', async (t) => {
  for (const text of [
    'plain text, C:\\users\\me, 50 % & <b>',
    'Grüße, Tiếng Việt, «\u00a0bonjour\u202f!\u00a0»',
    'Tiếng Việt'.normalize('NFD'),
    'مرحبا بالعالم مُحَمَّدٌ ؀١٢',
    'می\u200cخواهم نامه\u200cها',
    'API\u200cها ۱۲\u200cام «کتاب»\u200cها',
    'അവന്\u200d വന്നു, উত্\u200d',
    `☎\ufe0e ↩\ufe0e ❤\ufe0e ${ENGLAND} \u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}`,
    'שָׁלוֹם בְּרֵאשִׁ֖ית בָּרָ֣א',
    'हिन्दी क्\u200dष র\u200d্য ক্ষ ශ්\u200dරී മലയാളം தமிழ்',
    'ภาษาไทย น้ำ ភាសា\u200bខ្មែរ မျှော်',
    '日本語　東京 한국어 한글 中文 GPT-4　モデル、　次',
    '👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 🏳\ufe0f\u200d🌈 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 #\ufe0f\u20e3 👍🏿 🇩🇪',
  ])
    t.equal(shownText(text, 'terminal'), text);
});

t.test('what is shown says what was there, on a terminal, a page and a line', async (t) => {
  for (const text of [HOSTILE, '\\u{202e}', '\\\\u{41}\\', '\\\u202e', '\\\\\u202e\\u', 'u{202e}', '\\u', '\ud800\\u{d800}'])
    for (const face of ['terminal', 'page', 'line'] as const) {
      const shown = shownText(text, face);
      const back = shown.replace(/\\u\{([0-9a-f]+)\}/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)));
      t.equal(back, text, JSON.stringify(text));
      t.same(unseenIn(shown), []);
    }
});

t.test('no face shows what is not seen', async (t) => {
  for (const face of FACES) {
    t.same(unseenIn(shownText(HOSTILE, face)), [], face);
    t.notMatch(shownText(HOSTILE, face), /\n/, face);
    t.same(unseenIn(shownLines(HOSTILE, face)), [], face);
  }
});

t.test('what is markup for the programs of a face is a plain sign there', async (t) => {
  const text = '*b* _i_ a_b ~s~ `c` [x](https://e.example) a@b.example www.x :smile: 2001:db8:0:1 <!channel> & {{DATE(x)}}';
  for (const [face, shown] of [
    ['terminal', text],
    ['page', text],
    ['line', text],
    [
      'teams',
      '*b* _i_ a_b ~s~ `c` [x](https\\u{3a}//e.example) a\\u{40}b.example www\\u{2e}x :smile: 2001:db8:0:1 <!channel> & \\u{7b}{DATE(x)}}',
    ],
    [
      'google_chat',
      '*b* _i_ a_b ~s~ `c` [x](https\\u{3a}//e.example) a\\u{40}b.example www\\u{2e}x :smile: 2001:db8:0:1 &lt;!channel&gt; &amp; {{DATE(x)}}',
    ],
    [
      'slack',
      '\\u{2a}b\\u{2a} \\u{5f}i\\u{5f} a_b \\u{7e}s\\u{7e} \\u{60}c\\u{60} [x]\\u{28}https\\u{3a}//e.example) a\\u{40}b.example www\\u{2e}x \\u{3a}smile: 2001:db8:0:1 &lt;!channel&gt; &amp; {{DATE(x)}}',
    ],
    [
      'mail',
      '*b* _i_ a_b ~s~ `c` [x](https\\u{3a}//e\\u{2e}example) a\\u{40}b\\u{2e}example www\\u{2e}x :smile: 2001:db8:0:1 <!channel> & {{DATE(x)}}',
    ],
  ] as const)
    t.equal(shownText(text, face), shown, face);
  const discord = shownText(text, 'discord');
  t.notMatch(discord, /(?<!\\)[*_~`[\]()<>:@]/);
  t.equal(discord.replaceAll(/\\([^0-9A-Za-z\s])/g, '$1'), text, 'which shows the text itself');
});

t.test('JSON stays the same value, and has nothing that is not seen', async (t) => {
  const value = { [HOSTILE]: [HOSTILE, '\\u{202e}', { 'é👩\u200d👧': '\u{e0041}' }], plain: 'a"b\\' };
  for (const space of [0, 2]) {
    const text = shownJson(JSON.stringify(value, null, space));
    t.same(JSON.parse(text), value);
    t.same(hiddenIn(text), []);
  }
  t.equal(shownJson('{"a":"\u202e\u{e0041}é"}'), '{"a":"\\u202e\\udb40\\udc41é"}');
});

t.test('what a command forgot is written out on its way to a terminal, but for lines, tabs and our own colours', async (t) => {
  const text = '\u001b[31mred\u001b[39m\t\u001b[1mbold\u001b[22m\n\u001b[2J\u001b[41m\u202e\\u{202e}';
  t.equal(terminalOutput(text, true), '\u001b[31mred\u001b[39m\t\u001b[1mbold\u001b[22m\n\\u{1b}[2J\\u{1b}[41m\\u{202e}\\u{202e}');
  for (const code of [32, 34, 35, 36, 90])
    t.equal(terminalOutput(`\u001b[${code}mlog\u001b[39m`, true), `\u001b[${code}mlog\u001b[39m`, 'colours of the log at a terminal');
  t.equal(terminalOutput('\u001b[31m'), '\\u{1b}[31m');
  t.equal(terminalOutput(shownText(HOSTILE, 'terminal')), shownText(HOSTILE, 'terminal'), 'what is shown already stays');
});

t.test('what is cut is never half of a sign', async (t) => {
  for (const face of FACES) {
    const shown = shownText(`a\u202e👍<\u{e0041}\`_&b${ENGLAND}`.repeat(4), face);
    for (let max = 1; max <= shown.length + 1; max += 1) {
      const cut = cutShown(shown, max);
      t.ok(cut.length <= max && cut.isWellFormed(), `${face} ${max}`);
      t.same(unseenIn(cut.replaceAll('\\', '')), [], `${face} ${max}`);
      t.notMatch(cut, /\\+(?:u\\*(?:\{[0-9a-f]*\\*)?)?…$/, `${face} ${max}`);
      if (face === 'slack' || face === 'google_chat') t.notMatch(cut, /&[a-z]*…$/, `${face} ${max}`);
    }
  }
});

t.test('long texts take time by their length alone', async (t) => {
  const cost = (text: string) => {
    const before = process.cpuUsage();
    for (const face of FACES) shownText(text, face);
    return process.cpuUsage(before).user;
  };
  for (const piece of ['\u0301', '\u200d', '👩\u200d', '\ufe0f', ':a', '_', 'www.', 'a.b', ']', '\\u{', '\u00a0', 'क्\u200d']) {
    cost(piece.repeat(2_000));
    const few = Math.min(cost(piece.repeat(4_000)), cost(piece.repeat(4_000)));
    const many = Math.min(cost(piece.repeat(32_000)), cost(piece.repeat(32_000)));
    t.ok(many < 64 * Math.max(few, 2_000), `${JSON.stringify(piece)}: ${few} and ${many} µs`);
  }
});

t.test('the patterns, which take long to make, are made when a text first needs them: every process loads the file', async (t) => {
  const made: string[] = [];
  const Own = globalThis.RegExp;
  t.teardown(() => {
    globalThis.RegExp = Own;
  });
  globalThis.RegExp = new Proxy(Own, {
    construct(target, args: [string, string]) {
      made.push(args[0]);
      return new target(...args);
    },
  });
  const fresh = (await import(`${import.meta.resolve('../../../src/base/lib/shown-text.js')}?fresh`)) as {
    shownText(text: string, face: Face): string;
    terminalOutput(text: string, coloured?: boolean): string;
  };
  t.equal(fresh.terminalOutput('plain: C:\\users\\u{41}\n\ttext'), 'plain: C:\\users\\u{41}\n\ttext');
  t.equal(fresh.shownText('plain', 'terminal'), 'plain');
  t.strictSame(made, [], 'none for a start that says nothing but ASCII');
  t.equal(fresh.terminalOutput('\u200e\n'), '\\u{200e}\n');
  t.equal(fresh.shownText('\u200e', 'page'), '\\u{200e}');
  t.equal(made.length, 1, 'one for all faces that have the same');
  t.equal(fresh.terminalOutput('\u200e'), '\\u{200e}');
  t.equal(made.length, 1, 'and once');
});
