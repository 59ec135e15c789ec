import { jsonMembers, type MemberRange } from '../../base/json/json-members.ts';
import { parsed } from '../../base/json/json-picker.ts';
import { TextPieces } from '../../base/lib/text.ts';
import { latin1 } from './answer-reader.ts';

/** A line that is longer holds no usage event; it passes as it comes. */
const MAX_LINE = 256 * 1024;
/**
 * Refusing a broken JSON text costs more than a thousand bytes of an intact one; from a stream with so many of them
 * nothing is taken out any more.
 */
const MAX_BROKEN = 100;
const LF = 0x0a;
const CR = 0x0d;
const NOTHING = new Uint8Array(0);
const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';

/**
 * Takes out of an OpenAI stream what `stream_options.include_usage` adds to it: the event with empty `choices` and a
 * usage, and the `"usage":null` of all others. Everything else passes byte for byte, line by line, however it is cut.
 * An event with empty `choices` and no usage is Azure's and stays.
 */
export class UsageHider {
  /** The line so far. */
  readonly #line = new TextPieces();
  #passing = false;
  /** The last chunk ended in CR: an LF that follows belongs to it and goes where it went. */
  #crKept: boolean | undefined;
  /** Lines of this event that were passed on, and whether one was not. */
  #kept = 0;
  #dropped = false;
  #broken = 0;

  /** @returns what may be sent on now */
  push(chunk: Uint8Array): Uint8Array {
    const text = latin1(chunk);
    if (text === '') return NOTHING;
    let at = this.#crKept !== undefined && text.charCodeAt(0) === LF ? 1 : 0;
    let out = this.#crKept === true ? text.slice(0, at) : '';
    this.#crKept = undefined;
    for (const lines = new LineEnds(text, at); lines.advance(); ) {
      const { end, next } = lines;
      const kept = this.#take(this.#line.take() + text.slice(at, end));
      if (kept !== undefined) out += kept + text.slice(end, next);
      if (next === text.length && text.charCodeAt(next - 1) === CR) this.#crKept = kept !== undefined;
      at = next;
    }
    if (at < text.length) out += this.#begin(text.slice(at));
    return Buffer.from(out, 'latin1');
  }

  /** The beginning of a line that never ended. */
  flush(): Uint8Array {
    const rest = this.#line.take();
    return rest === '' ? NOTHING : Buffer.from(rest, 'latin1');
  }

  #begin(piece: string): string {
    if (this.#passing) return piece;
    this.#line.push(piece);
    if (this.#line.length <= MAX_LINE) return '';
    this.#passing = true;
    return this.#line.take();
  }

  /** What a whole line becomes; undefined: nothing, without its end. */
  #take(line: string): string | undefined {
    if (this.#passing) {
      this.#passing = false;
      this.#kept++;
      return line;
    }
    if (line === '') {
      const whole = this.#dropped && this.#kept === 0;
      this.#dropped = false;
      this.#kept = 0;
      return whole ? undefined : line;
    }
    const event = this.#broken < MAX_BROKEN && isData(line) && line.includes('"usage"') ? this.#eventOf(line) : undefined;
    const left = event === undefined ? line : withoutUsage(line, event);
    if (left === undefined) this.#dropped = true;
    else this.#kept++;
    return left;
  }

  #eventOf(line: string): Event | undefined {
    const event = parsed(line.slice(line.indexOf(':') + 1));
    if (event === undefined) this.#broken++;
    return typeof event === 'object' && event !== null && Object.hasOwn(event, 'usage') ? (event as Event) : undefined;
  }
}

type Event = Readonly<Record<string, unknown>>;

/** Also of the first line behind a byte order mark. */
function isData(line: string): boolean {
  return line.startsWith('data:') || line.startsWith(`${BYTE_ORDER_MARK}data:`);
}

/** A line with `data:`; undefined when it is the usage event. */
function withoutUsage(line: string, event: Event): string | undefined {
  const { choices, usage } = event;
  if (usage !== null) return Array.isArray(choices) && choices.length === 0 ? undefined : line;
  const members = [...jsonMembers(line, line.indexOf('{'))];
  const at = members.findIndex(({ name }) => name === 'usage');
  const member = members[at];
  return member === undefined ? line : line.slice(0, cutFrom(members, at, member)) + line.slice(members[at + 1]?.start ?? member.end);
}

/** The last member goes with the comma before it, any other with the one behind. */
function cutFrom(members: readonly MemberRange[], at: number, member: MemberRange): number {
  return members[at + 1] === undefined ? (members[at - 1]?.end ?? member.start) : member.start;
}

/**
 * Goes through the lines that end in a text (LF, CR, CRLF in any mix), each kind of end searched for again only when it
 * was passed. No generator: a stream has thousands of lines.
 */
class LineEnds {
  /** Where the line ends, and where the next one begins. */
  end = -1;
  next: number;
  readonly #text: string;
  #lf: number;
  #cr: number;

  constructor(text: string, from: number) {
    this.#text = text;
    this.next = from;
    this.#lf = text.indexOf('\n', from);
    this.#cr = text.indexOf('\r', from);
  }

  /** Goes on to the next line. @returns false when none ends in this text any more */
  advance(): boolean {
    if (this.#cr !== -1 && this.#cr < this.next) this.#cr = this.#text.indexOf('\r', this.next);
    if (this.#lf !== -1 && this.#lf < this.next) this.#lf = this.#text.indexOf('\n', this.next);
    const lf = this.#lf;
    const cr = this.#cr;
    const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
    if (end === -1) return false;
    this.end = end;
    this.next = end === cr && lf === end + 1 ? end + 2 : end + 1;
    return true;
  }
}
