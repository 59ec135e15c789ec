import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { encode as cl100k, encodeChat as encodeOlderChat } from 'gpt-tokenizer/encoding/cl100k_base';
import { encodeChat, encode as o200k } from 'gpt-tokenizer/encoding/o200k_base';
import { encode as p50k } from 'gpt-tokenizer/encoding/p50k_base';
import { encode as r50k } from 'gpt-tokenizer/encoding/r50k_base';
import t from 'tap';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { countTokens, textTokens } from '../../../src/decide/pricing/count-tokens.ts';
import { fc } from '../../support/properties.ts';
import { HELD_OUT, HELD_OUT_CHATS, HELD_OUT_TOOLS } from './held-out.ts';

/** Written for this test; the weights of the estimate are fitted to it. */
const CORPUS: Readonly<Record<string, string>> = {
  'English prose': `The gateway stands between applications and providers. Every request is decided by policy before anything is forwarded, and each decision leaves a record that an auditor can verify later without asking the service that wrote it. When the budget of a project is nearly used up, the people who own it hear about it early enough to do something; when it is used up, calls are refused with a reason that a program can read. Nobody likes surprises on an invoice, and nobody should have to trust a spreadsheet that was copied together by hand at the end of the month. Please summarise the attached minutes in three sentences, mention who promised what, and do not invent any dates.`,
  'program code': `export async function readAll(stream: AsyncIterable<Uint8Array>, limit = 1 << 20): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of stream) {
    total += chunk.length;
    if (total > limit) throw new RangeError(\`body is larger than \${limit} bytes\`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, total);
}

def moving_average(values, window=3):
    out = []
    for i in range(len(values) - window + 1):
        out.append(sum(values[i:i + window]) / window)
    return out
`,
  JSON: JSON.stringify({
    orders: [
      {
        id: 48213,
        customer: { name: 'Ada Berg', email: 'ada@example.org' },
        items: [
          { sku: 'KX-2091', quantity: 3, price: '19.90' },
          { sku: 'LM-77', quantity: 1, price: '249.00' },
        ],
        paid: true,
        placed_at: '2026-03-14T09:26:53Z',
      },
      { id: 48214, customer: { name: 'Li Wei', email: null }, items: [], paid: false, placed_at: '2026-03-15T18:02:11Z' },
    ],
    page: 1,
    total_pages: 12,
  }),
  German: `Die Geschäftsführung hat beschlossen, die Reisekostenabrechnung künftig vollständig elektronisch abzuwickeln. Belege werden fotografiert, geprüft und nach der Freigabe durch die zuständige Abteilungsleitung automatisch überwiesen. Bitte fassen Sie das beigefügte Protokoll in drei Sätzen zusammen und nennen Sie ausschließlich die tatsächlich vereinbarten Termine.`,
  Chinese: `请用三句话总结下面的会议纪要，说明每个人承诺完成的工作，不要编造日期。公司计划在下个季度把所有的报销流程改为电子化，员工只需要拍照上传发票，经部门负责人审核之后，款项会自动转入个人账户。`,
  Japanese: `添付の議事録を三つの文で要約し、誰が何を約束したかを書いてください。日付を作らないでください。来期から経費の精算はすべて電子化され、領収書は写真で提出し、部門長の承認後に自動で振り込まれます。`,
  Russian: `Пожалуйста, кратко изложите содержание протокола в трёх предложениях и укажите, кто что обещал сделать. Не придумывайте даты. Со следующего квартала командировочные расходы оформляются полностью в электронном виде, а деньги перечисляются автоматически после согласования.`,
  Arabic: `يرجى تلخيص محضر الاجتماع المرفق في ثلاث جمل وذكر ما وعد به كل شخص، ولا تخترع أي تواريخ. ابتداءً من الربع القادم ستتم معالجة نفقات السفر إلكترونيا بالكامل وتحول المبالغ تلقائيا بعد موافقة المدير.`,
  emoji: `Great job team! 🎉🎉 We shipped it 🚀 — see you at the party 🥳🍕 and don't forget the cake 🎂❤️👍🏽 Thanks everyone 🙏😊`,
  base64: Buffer.from(Array.from({ length: 600 }, (_, i) => (i * 7919 + ((i * i) >> 3)) & 255)).toString('base64'),
  'log lines': `2026-03-14 09:26:53 INFO id=48213 latency=12.873ms bytes=184467440737 status=200\n2026-03-14 09:26:54 WARN id=48214 latency=1034.002ms bytes=99 status=503\n2026-03-14 09:26:55 INFO id=48215 latency=7.5ms bytes=65536 status=200\n`,
};

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Current weather at a place',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string', description: 'City and country' },
          unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
        },
        required: ['city'],
      },
    },
  },
];

interface Judged {
  readonly name: string;
  readonly estimate: number;
  /** By o200k_base and by cl100k_base. */
  readonly real: readonly [newer: number, older: number];
}

function judged(name: string, text: string, estimate = countTokens([text])): Judged {
  return { name, estimate, real: [o200k(text).length, cl100k(text).length] };
}

function judgedTools(name: string, tools: readonly object[]): Judged {
  return judged(name, JSON.stringify(tools), countTokens([tools]));
}

function judgedTexts(texts: Readonly<Record<string, string>>): Judged[] {
  return Object.entries(texts).map(([name, text]) => judged(name, text));
}

function error(estimate: number, real: number): string {
  const percent = Math.round(((estimate - real) / real) * 100);
  return `${percent > 0 ? '+' : ''}${percent} %`;
}

function table(title: string, rows: readonly Judged[]): string {
  const lines = rows.map(
    ({ name, estimate, real: [newer, older] }) => `| ${name} | ${error(estimate, newer)} | ${error(estimate, older)} |`,
  );
  return [`| ${title} | o200k_base | cl100k_base (gpt-4, gpt-3.5) |`, '|---|--:|--:|', ...lines, ''].join('\n');
}

function together(rows: readonly Judged[]): Judged {
  const sum = (pick: (row: Judged) => number) => rows.reduce((total, row) => total + pick(row), 0);
  return { name: 'all of them', estimate: sum((row) => row.estimate), real: [sum((row) => row.real[0]), sum((row) => row.real[1])] };
}

const heldOut = [
  ...judgedTexts(HELD_OUT),
  judgedTools('tool schemas', HELD_OUT_TOOLS),
  ...Object.entries(HELD_OUT_CHATS).map(
    ([name, chat]): Judged => ({
      name,
      estimate: countTokens([chat]),
      real: [encodeChat(chat, 'gpt-4o').length, encodeOlderChat(chat, 'gpt-4').length],
    }),
  ),
];
/** Lines broken wherever the page breaks them. */
const guide = readFileSync(join(packageRoot(), 'docs/guides/pricing.md'), 'utf8');
const flowing = guide.replaceAll(/\s+/g, ' ');

/** With all its rows, so that the page can neither drift nor leave one out. */
function tableInGuide(title: string): string | undefined {
  return new RegExp(`^\\| ${title} \\|[^]*?\\n(?=\\n)`, 'm').exec(guide)?.[0];
}

t.test('the error of the estimate against the tokenizers of OpenAI is what the guide says', async (t) => {
  t.equal(tableInGuide('Held out'), table('Held out', [...heldOut, together(heldOut)]), 'held out');
  t.equal(tableInGuide('Fitted to'), table('Fitted to', [...judgedTexts(CORPUS), judgedTools('tool schema', TOOLS)]), 'fitted to');
});

t.test('how far the real count was above the estimate at most is what the guide says', async (t) => {
  const most = (encode: (text: string) => readonly number[]) => {
    const factors = Object.values(HELD_OUT).map((text) => encode(text).length / countTokens([text]));
    return (Math.ceil(Math.max(...factors) * 10) / 10).toFixed(1);
  };
  const sentence = `at most ${most(o200k)} times the estimate for o200k_base, ${most(cl100k)} times for cl100k_base, ${most(p50k)} times for p50k_base and ${most(r50k)} times for r50k_base`;
  t.ok(flowing.includes(sentence), sentence);
});

t.test('a text has at most 12.8 bytes for each token of its estimate', async (t) => {
  const units = fc.string({
    unit: fc.constantFrom(...'az AZ09.,\n\täßÿжΩשकไ中あ한€\ud83d\ude00'.split(''), 'e\u0301', '\u2028'),
    maxLength: 400,
  });
  const holds = (text: string) => Buffer.byteLength(text) <= 12.8 * textTokens(text);
  t.doesNotThrow(() => fc.assert(fc.property(fc.oneof(units, fc.string({ unit: 'binary', maxLength: 400 })), holds), { numRuns: 2000 }));
  for (let unit = 0; unit < 0x1_00_00; unit++) {
    const text = String.fromCharCode(unit).repeat(64);
    if (!holds(text) || !holds(`${text} `) || !holds(`b${text}b`)) t.fail(`U+${unit.toString(16)}`);
  }
  t.ok(flowing.includes('at most 12.8 times the estimate'));
  t.ok(12.8 * textTokens('a'.repeat(4000)) < 4100, 'and not many fewer');
});

t.test('no kind of text is far off for o200k_base', async (t) => {
  for (const [name, text] of Object.entries(CORPUS)) {
    const ratio = countTokens([text]) / o200k(text).length;
    t.ok(ratio > 0.85 && ratio < 1.3, `${name} ${ratio}`);
  }
});

t.test('messages count with their names and roles', async (t) => {
  const chat = [
    { role: 'system' as const, content: CORPUS['English prose'] ?? '' },
    { role: 'user' as const, content: CORPUS['program code'] ?? '' },
    { role: 'assistant' as const, content: 'Done.' },
  ];
  const ratio = countTokens([chat]) / encodeChat(chat, 'gpt-4o').length;
  t.ok(ratio > 0.9 && ratio < 1.15, String(ratio));
});

t.test('a long text is judged by parts that are spread over it', async (t) => {
  const text = Object.values(CORPUS).join('\n');
  const long = Array.from({ length: 40 }, () => text).join('\n');
  const ratio = countTokens([long]) / (40 * countTokens([text]));
  t.ok(ratio > 0.95 && ratio < 1.05, String(ratio));
  const halves = countTokens([`${'word '.repeat(20_000)}${'x7Q'.repeat(33_000)}`]);
  const apart = countTokens(['word '.repeat(20_000)]) + countTokens(['x7Q'.repeat(33_000)]);
  t.ok(Math.abs(halves / apart - 1) < 0.05, `${halves} ${apart}`);
});
