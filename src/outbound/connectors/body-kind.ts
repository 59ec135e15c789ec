import type { BodyKind } from '../../base/catalogue/stream-types.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { parsed } from '../../base/json/json-picker.ts';
import { compilePath, valueAt } from './answer-paths.ts';
import { beginsAwsFrame, PRELUDE } from './aws-frames.ts';
import { says } from './stream-finish.ts';
import { readUsage } from './usage-reader.ts';

/** How much of a body is looked at to find out what it is; beyond that it is what its head calls it. */
export const MAX_LOOKED_AT = 64 * 1024;
/** The same where no line of it has said anything yet. */
const MAX_SILENT = 4096;
/** Blanks between two lines of JSON. */
const MAX_BLANKS = 64;
const OBJECT = 0x7b;
const LIST = 0x5b;
const BLANK = 0x20;
/** The first byte of a byte order mark is one of these. */
const NOT_ASCII = 0x80;
const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';
/** With which the lines of server-sent events begin. */
const SIGNS = ['data:', 'event:', 'id:', 'retry:', ':'] as const;

/** What is known of an answer before its body. */
export interface BodyClues {
  readonly dialect: Dialect | undefined;
  /** What its head calls it. */
  readonly label: BodyKind;
  /** The call asks for a stream. */
  readonly isAsked: boolean;
  /** A list may be a stream of its elements. */
  readonly mayBeList: boolean;
}

/**
 * What a body is by its first bytes, whatever its head calls it: servers and what stands before them label streams as
 * plain text, JSON or bytes, and plain answers as streams. It is told as soon as it is certain, and a prefix of a body
 * never says another thing than the body.
 * @param text first bytes, as Latin-1
 * @param isEnd nothing comes behind them
 * @returns undefined: more is needed
 */
export function bodyKind(text: string, clues: BodyClues, isEnd: boolean): BodyKind | undefined {
  const { label, dialect } = clues;
  if (text.startsWith('\0')) return dialect?.streaming?.framing === 'aws_event_stream' ? awsKind(text, label, isEnd) : label;
  const at = firstSign(text);
  if (at > MAX_SILENT) return label;
  if (at >= text.length) return isEnd ? label : undefined;
  const sign = text.charCodeAt(at);
  const known = kindOfSign(sign, clues);
  if (known !== undefined) return known;
  if (sign === OBJECT) return objectKind(text.slice(at), clues, isEnd);
  return label === 'sse' ? label : eventKind(text.slice(at), clues, isEnd);
}

/**
 * What a body is that begins with this character, which is enough for nearly every one.
 * @returns undefined: what stands behind it counts, or it may stand before the body
 */
export function kindOfSign(sign: number, { label, dialect, mayBeList }: BodyClues): BodyKind | undefined {
  if (sign === OBJECT) return dialect?.streaming?.framing === 'ndjson' ? undefined : usualKind(label);
  if (sign === LIST) return mayBeList ? 'json_array' : 'whole';
  return label === 'sse' && sign > BLANK && sign < NOT_ASCII ? label : undefined;
}

/** Of a body that begins with an object. */
function usualKind(label: BodyKind): BodyKind {
  return label === 'ndjson' ? label : 'whole';
}

/**
 * Where something stands that is no blank; the length of the text where nothing does, or where all of it may be the
 * beginning of a byte order mark.
 */
function firstSign(text: string): number {
  if (BYTE_ORDER_MARK.startsWith(text)) return text.length;
  const from = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  let at = from;
  while (at < text.length && ' \t\r\n'.includes(text[at] ?? '')) at++;
  return at;
}

function awsKind(text: string, label: BodyKind, isEnd: boolean): BodyKind | undefined {
  if (text.length < PRELUDE) return isEnd ? label : undefined;
  return beginsAwsFrame(Buffer.from(text.slice(0, PRELUDE), 'latin1')) ? 'aws_event_stream' : label;
}

/**
 * One answer, or the first of many lines where a format streams so: an answer reports its usage, or its end, a first
 * event does not yet.
 */
function objectKind(text: string, { dialect, label, isAsked }: BodyClues, isEnd: boolean): BodyKind | undefined {
  const usual = usualKind(label);
  const end = text.search(/[\r\n]/);
  if (end === -1) {
    if (!isEnd && text.length <= MAX_LOOKED_AT) return undefined;
    return isAnswer(parsed(text), dialect) ? 'whole' : usual;
  }
  const line = parsed(text.slice(0, end));
  if (typeof line !== 'object' || line === null || isAnswer(line, dialect)) return 'whole';
  return isAsked || label === 'ndjson' ? 'ndjson' : nextKind(text.slice(end), isEnd);
}

/** What stands behind a line that may be all of the answer. */
function nextKind(text: string, isEnd: boolean): BodyKind | undefined {
  const next = text.slice(0, MAX_BLANKS).trimStart();
  if (next !== '') return next.startsWith('{') ? 'ndjson' : 'whole';
  return isEnd || text.length >= MAX_BLANKS ? 'whole' : undefined;
}

function isAnswer(value: unknown, dialect: Dialect | undefined): boolean {
  if (readUsage(dialect, value).usage !== undefined) return true;
  return dialect?.streaming?.donePaths.some((path) => says(valueAt(value, compilePath(path)))) === true;
}

/**
 * Server-sent events, by their lines. A call that asks for a stream has one from its first field or comment on. What
 * nobody asked for, and what may as well be a text, is one when its data is that of an event.
 */
function eventKind(text: string, clues: BodyClues, isEnd: boolean): BodyKind | undefined {
  const isOver = isEnd || text.length >= MAX_SILENT;
  const lines = text.slice(0, MAX_SILENT).split(/\r\n|\r|\n/);
  for (const [at, line] of lines.entries()) {
    const kind = lineKind(line, clues, isOver || at < lines.length - 1);
    if (kind !== 'nothing') return kind;
  }
  return isOver ? clues.label : undefined;
}

/** @returns `nothing`: it may stand in either; undefined: more of it is needed */
function lineKind(line: string, { label, dialect, isAsked }: BodyClues, isWhole: boolean): BodyKind | 'nothing' | undefined {
  if (line.startsWith('data:')) {
    const sign = line.slice('data:'.length).trimStart()[0];
    if (sign === undefined) return isWhole ? 'sse' : undefined;
    return dialect === undefined || '{["'.includes(sign) ? 'sse' : label;
  }
  if (SIGNS.some((sign) => line.startsWith(sign))) return isAsked ? 'sse' : 'nothing';
  if (line === '') return 'nothing';
  return !isWhole && SIGNS.some((sign) => sign.startsWith(line)) ? undefined : label;
}
