import { type Face, shownJson, shownLines, shownText, terminalOutput, UNSEEN } from '../../src/base/lib/shown-text.ts';
import { callOfRecord } from '../../src/cli/logs/call-line.ts';
import { callTable } from '../../src/cli/logs/call-table.ts';
import { answerText } from '../../src/cli/management/answer-text.ts';
import { csvLine } from '../../src/operations/csv-line.ts';
import type { AlertCard } from '../../src/outbound/destinations/alert-card.ts';
import { alertMail } from '../../src/outbound/destinations/alert-mail.ts';
import { CHAT_WEBHOOKS } from '../../src/outbound/destinations/chat-webhooks.ts';
import { syslogMessage } from '../../src/outbound/destinations/syslog-message.ts';
import { paintFor } from '../../src/policy-tools/render-problem.ts';
import { hiddenIn, unseenIn } from '../support/hostile-text.ts';
import { type FuzzTarget, must } from './target.ts';

const FACES: readonly Face[] = ['terminal', 'page', 'line', 'slack', 'discord', 'teams', 'google_chat', 'mail'];
/** Faces whose texts can be read back. */
const EXACT: ReadonlySet<Face> = new Set<Face>(['terminal', 'page', 'line']);
const PAGE = new RegExp(UNSEEN, 'gu');
const SIGN = /\\u\{([0-9a-f]+)\}/g;
/** Of spreadsheets. */
const FORMULA = /^[\s\p{C}\p{DI}]*[=+\-@\uff1d\uff0b\uff0d\uff20]/u;

/** A stranger's text, as UTF-8, on every face. */
const faces: FuzzTarget = {
  name: 'shown-text',
  inputs: 50_000,
  dear: true,
  // Ten faces and what is held of each, all of them linear, of texts far longer than any that is shown: nothing of a
  // call waits for it.
  stallMs: 10_000,
  headLines: 0,
  dictionary: [
    ...[
      '\u001b[31m',
      '\u009b',
      '\u202e',
      '\u2066',
      '\u{e0041}',
      '\u{e007f}',
      '\u3164',
      '\u2800',
      '\u00ad',
      '\ufe0f',
      '\ufe05',
      '\u{e0101}',
    ],
    ...['\u200d', '\u200c', '\u200b', '\u0301\u0301\u0301', '\u20e3', '👩', '🏽', 'می', 'क्', 'ខ', '\u00a0', '\u3000', '\u2028', '\r\n'],
    ...[
      '\\',
      '\\u{',
      '\\u{202e}',
      '}',
      '*',
      '_',
      '`',
      '~',
      '<!channel>',
      '@',
      '://',
      'www.',
      '.com',
      ':x:',
      '{{',
      '](',
      '&',
      '"',
      ']',
      '=',
    ],
  ],
  run(input) {
    const text = input.toString('utf8');
    const shown = FACES.map((face) => shownOn(face, text));
    must(text.replace(PAGE, onPage) === shownText(text, 'page'), 'the page shows what every face shows');
    asJson(text);
    onTerminal(text);
    inAlerts(text);
    inExports(text);
    return `${text === shown[0] ? 'as it is' : 'written out'} ${new Set(shown).size}`;
  },
};

function shownOn(face: Face, text: string): string {
  const shown = shownText(text, face);
  must(unseenIn(shown).length === 0 && !shown.includes('\n'), `nothing unseen reaches ${face}`);
  must(unseenIn(shownLines(text, face)).length === 0, `nor in lines on ${face}`);
  if (EXACT.has(face)) {
    const back = shown.replace(SIGN, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)));
    must(back === text, `${face} says exactly what was there`);
  }
  return shown;
}

/** As page.js does with the pattern that it is given. */
function onPage(sign: string): string {
  return `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`;
}

function asJson(text: string): void {
  const written = shownJson(JSON.stringify({ [text]: text }, null, 2));
  must(hiddenIn(written).length === 0, 'nothing hidden stands in JSON');
  must(JSON.stringify(JSON.parse(written)) === JSON.stringify({ [text]: text }), 'JSON stays the same value');
}

function onTerminal(text: string): void {
  const shown = shownText(text, 'terminal');
  must(terminalOutput(shown) === shown, 'what is shown needs no second look');
  const colours = terminalOutput(text, true).replaceAll(/\u001b\[(?:1|2|22|3[1-4]|39)m|\t/g, 'm');
  must(unseenIn(colours).length === 0, 'nothing but our colours passes the last look');
  const call = callTable({ width: 80, now: () => 0 }).line(
    callOfRecord({ decision: text, workload_id: text, provider: text, model: text, reason: text }),
    paintFor(false),
  );
  must(unseenIn(call).length === 0 && !call.includes('\n'), 'a call is one line');
  const answer = answerText(
    { name: text, [text]: 'x', list: [{ name: text, note: text }] },
    { things: 'things', view: { width: 80, now: 0 } },
  );
  must(unseenIn(answer).length === 0, 'an answer hides nothing');
  // What goes on from the line before is told by its beginning.
  must(answer.split('\n').filter((line) => !/^(?:\| | {2})/.test(line)).length <= 14, 'an answer has the lines of its members');
}

function lines(text: string): number {
  return text.split('\n').length;
}

function inAlerts(text: string): void {
  const card: AlertCard = {
    alertId: 'a',
    title: text,
    tone: 'warning',
    text,
    facts: [{ name: 'caller_id', value: text }],
    at: '2026-01-01T00:00:00.000Z',
  };
  for (const [kind, { message }] of Object.entries(CHAT_WEBHOOKS)) {
    const sent = message(card);
    must(
      textsOf(sent).every((one) => unseenIn(one).length === 0 && one.isWellFormed()),
      `nothing unseen goes to ${kind}`,
    );
    if (kind !== 'discord') must(!textsOf(sent).some((one) => one.includes('://')), `no link goes to ${kind}`);
  }
  const mail = alertMail(card);
  must(unseenIn(mail.subject).length === 0 && !mail.subject.includes('\n'), 'a subject is one line');
  must(unseenIn(mail.text).length === 0 && lines(mail.text) === 8, 'a mail has the lines that it is made of');
  must(!/:\/\/|@/.test(mail.text), 'nothing in a mail becomes a link');
}

/** All texts of what is sent that strangers can be in. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return value === 'http://adaptivecards.io/schemas/adaptive-card.json' ? [] : [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

function inExports(text: string): void {
  const payload = { record_id: text, decision: 'deny', caller_id: text, reason: text, model: text };
  const envelope = { event_type: 'execution', event_time: '2026-01-01T00:00:00.000Z', org_id: text, workload_id: text, payload };
  for (const format of ['rfc5424', 'cef'] as const) {
    const message = syslogMessage({ id: 'e', envelope }, 'host', format, 65_536).toString('utf8');
    const json = format === 'rfc5424' ? message.indexOf('] {') + 1 : message.length;
    must(
      unseenIn(message.slice(0, json)).length === 0 && !message.includes('\n'),
      `a message of ${format} is one line without what is not seen`,
    );
    must(hiddenIn(message.slice(json)).length === 0, 'nothing hidden stands in its JSON');
    if (format === 'rfc5424') must(/ \[gw@32473(?: \w+="(?:[^"\\\]]|\\.)*")*\] \{/su.test(message), 'structured data ends where it should');
  }
  const line = csvLine(['first', text, '1']);
  must(cellsOf(line)[1] === text || cellsOf(line)[1] === `'${text}`, 'a cell keeps its text');
  must(!FORMULA.test(cellsOf(line)[1] ?? ''), 'no cell begins a formula');
}

/** The cells of one line of RFC 4180. */
function cellsOf(line: string): readonly string[] {
  const cells = [...line.slice(0, -2).matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)];
  return cells.map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '');
}

export const FACE_TARGETS: readonly FuzzTarget[] = [faces];
