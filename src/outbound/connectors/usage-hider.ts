import { jsonMembers, type MemberRange } from '../../base/lib/json-members.ts';
import { latin1 } from './answer-reader.ts';

/** A line that is longer holds no usage event; it passes as it comes. */
const MAX_LINE = 256 * 1024;
const LF = 0x0a;
const CR = 0x0d;
const NOTHING = new Uint8Array(0);

/**
 * Takes out of an OpenAI stream what `stream_options.include_usage` adds to it: the event with empty `choices` and a usage, and the `"usage":null` of all
 * others. Everything else passes byte for byte, line by line, however it is cut. An event with empty `choices` and no usage is Azure's and stays.
 */
export class UsageHider {
  /** The line so far. */
  #line = '';
  #passing = false;
  /** The last chunk ended in CR: an LF that follows belongs to it and goes where it went. */
  #crKept: boolean | undefined;
  /** Lines of this event that were passed on, and whether one was not. */
  #kept = 0;
  #dropped = false;

  /** @returns what may be sent on now */
  push(chunk: Uint8Array): Uint8Array {
    const text = latin1(chunk);
    if (text === '') return NOTHING;
    let at = this.#crKept !== undefined && text.charCodeAt(0) === LF ? 1 : 0;
    let out = this.#crKept === true ? text.slice(0, at) : '';
    this.#crKept = undefined;
    for (let end = lineEnd(text, at); end !== -1; end = lineEnd(text, at)) {
      const next = text.charCodeAt(end) === CR && text.charCodeAt(end + 1) === LF ? end + 2 : end + 1;
      const kept = this.#take(this.#line + text.slice(at, end));
      if (kept !== undefined) out += kept + text.slice(end, next);
      if (next === text.length && text.charCodeAt(next - 1) === CR) this.#crKept = kept !== undefined;
      at = next;
    }
    if (at < text.length) out += this.#begin(text.slice(at));
    return Buffer.from(out, 'latin1');
  }

  /** The beginning of a line that never ended. */
  flush(): Uint8Array {
    const rest = this.#line;
    this.#line = '';
    return rest === '' ? NOTHING : Buffer.from(rest, 'latin1');
  }

  #begin(piece: string): string {
    if (this.#passing) return piece;
    this.#line += piece;
    if (this.#line.length <= MAX_LINE) return '';
    const passed = this.#line;
    this.#line = '';
    this.#passing = true;
    return passed;
  }

  /** What a whole line becomes; undefined: nothing, without its end. */
  #take(line: string): string | undefined {
    this.#line = '';
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
    const left = line.startsWith('data:') && line.includes('"usage"') ? withoutUsage(line) : line;
    if (left === undefined) this.#dropped = true;
    else this.#kept++;
    return left;
  }
}

/** A line with `data:`; undefined when it is the usage event. */
function withoutUsage(line: string): string | undefined {
  const open = line.indexOf('{');
  const event = open === -1 ? undefined : parsed(line.slice(open));
  if (event === undefined || !Object.hasOwn(event, 'usage')) return line;
  const { choices, usage } = event;
  if (usage !== null) return Array.isArray(choices) && choices.length === 0 ? undefined : line;
  const members = [...jsonMembers(line, open)];
  const at = members.findIndex(({ name }) => name === 'usage');
  const member = members[at];
  return member === undefined ? line : line.slice(0, cutFrom(members, at, member)) + line.slice(members[at + 1]?.start ?? member.end);
}

/** The last member goes with the comma before it, any other with the one behind. */
function cutFrom(members: readonly MemberRange[], at: number, member: MemberRange): number {
  return members[at + 1] === undefined ? (members[at - 1]?.end ?? member.start) : member.start;
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}

/** Where the line that begins at `from` ends; -1 when its end is not here. */
function lineEnd(text: string, from: number): number {
  const lf = text.indexOf('\n', from);
  const cr = text.slice(from, lf === -1 ? text.length : lf).indexOf('\r');
  return cr === -1 ? lf : from + cr;
}
