import { type JsonPicker, parsed } from '../../base/json/json-picker.ts';
import { TextPieces } from '../../base/lib/text.ts';
import type { Usage } from '../../base/model/usage.ts';
import { latin1 } from './answer-reader.ts';
import type { EventReader, StreamTap } from './event-reader.ts';
import { endsHere, type StreamWatch } from './seen-usage.ts';

/** Data of an event above this is no longer kept but picked from as it passes. */
const MAX_KEPT = 256 * 1024;
const MAX_EVENT_NAME = 128;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';

/**
 * Taps formats whose events are lines: server-sent events as the WHATWG describes them (LF, CR, CRLF in any mix,
 * comments, data of several lines), and one JSON object per line. The end of the stream is recognised as soon as the
 * line that says it is complete, not at the empty line behind it, because clients act on that line.
 */
export class LineTap implements StreamTap {
  readonly #events: EventReader;
  readonly #oneEventPerLine: boolean;
  /** Server-sent events, whose lines begin with the name of a field. */
  readonly #isUsual: boolean;
  /** Bytes of earlier chunks. */
  #base = 0;
  /** Where the current line, the current event and the terminal event begin in the stream; -1 for none. */
  #lineStart = 0;
  #eventStart = -1;
  #terminalStart = -1;
  /** The line so far, when it began in an earlier chunk; most lines do not, so that nothing is asked of it for them. */
  readonly #carry = new TextPieces();
  #isCarried = false;
  #afterCr = false;
  #eventName = '';
  /** Of the event; the first line by itself, which is nearly always the only one. */
  #data: string | undefined;
  readonly #furtherData = new TextPieces();
  #hasFurther = false;
  /** Takes the data of an event that became too large. */
  #picker: JsonPicker | undefined;
  /** The body ended inside of an event. */
  #isCut = false;
  /** Inside a line that is too large to keep. */
  #inLongLine = false;
  #ended = false;
  readonly #watch: StreamWatch | undefined;
  /** The event that was read last is one behind which the stream is to end. */
  #stops = false;
  stopsAt = -1;

  constructor(events: EventReader, framing: 'sse' | 'ndjson', watch: StreamWatch | undefined) {
    this.#events = events;
    this.#watch = watch?.mayStop === false ? undefined : watch;
    this.#oneEventPerLine = framing === 'ndjson';
    this.#isUsual = framing === 'sse';
  }

  get outcome(): 'open' | 'complete' | 'error' {
    if (this.#events.failed) return 'error';
    // A large event tells its name long before it is here to its end.
    const isDone = this.#events.done && this.#picker === undefined;
    return isDone || (this.#ended && this.#lacksNothing) ? 'complete' : 'open';
  }

  /** As far as the end of the body can tell. */
  get #lacksNothing(): boolean {
    return !this.#events.hasTerminal || (this.#events.finished && !this.#isCut);
  }

  get usage(): Usage | undefined {
    return this.#events.usage;
  }

  get model(): string | undefined {
    return this.#events.model;
  }

  push(chunk: Uint8Array): number {
    const text = latin1(chunk);
    const base = this.#base;
    const rest = this.#wholeLines(text, base);
    if (this.#stops) {
      this.stopsAt = rest;
      return -1;
    }
    if (rest < text.length) {
      if (!this.#isCarried && !this.#inLongLine) this.#lineStart = base + rest;
      this.#keep(text.slice(rest));
    }
    this.#base = base + text.length;
    return this.#terminalStart === -1 ? -1 : Math.max(0, this.#terminalStart - base);
  }

  end(): void {
    if (this.#ended || this.#stops) return;
    this.#ended = true;
    const rest = this.#carry.text;
    // Many servers leave out the last empty line, and clients take the event all the same.
    if (rest !== '' || this.#inLongLine) this.#endLine('');
    const isOfEvent = rest !== '' && !rest.startsWith(':') && !this.#oneEventPerLine;
    if (isOfEvent && this.#data === undefined && this.#picker === undefined) this.#isCut = true;
    this.#dispatch();
  }

  /**
   * Takes every line that ends in this text; returns where the unfinished one begins. No generator: a stream has
   * thousands of them.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every line of every stream; a call for each would double its cost
  #wholeLines(text: string, base: number): number {
    let at = this.#afterCr && text.charCodeAt(0) === LF ? 1 : 0;
    if (text.length > 0) this.#afterCr = false;
    let lf = text.indexOf('\n', at);
    let cr = text.indexOf('\r', at);
    while (lf !== -1 || cr !== -1) {
      const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
      const next = end === cr && lf === end + 1 ? end + 2 : end + 1;
      if (this.#isCarried || this.#inLongLine) this.#endLine(text.slice(at, end));
      else {
        this.#lineStart = base + at;
        if (end === at) this.#dispatch();
        else if (this.#isUsual && this.#lineStart > 0 && text.startsWith('data:', at)) {
          if (this.#eventStart === -1) this.#eventStart = this.#lineStart;
          this.#addData(text.slice(text.charCodeAt(at + 5) === SPACE ? at + 6 : at + 5, end));
        } else this.#endLine(text.slice(at, end));
      }
      at = next;
      // Its LF may come with the next chunk.
      this.#afterCr = next === text.length && text.charCodeAt(next - 1) === CR;
      if (this.#stops) break;
      if (lf !== -1 && lf < at) lf = text.indexOf('\n', at);
      if (cr !== -1 && cr < at) cr = text.indexOf('\r', at);
    }
    return at;
  }

  #endLine(rest: string): void {
    if (this.#inLongLine) {
      this.#picker?.push(rest);
      this.#inLongLine = false;
      if (this.#oneEventPerLine) this.#dispatch();
      return;
    }
    const line = this.#isCarried ? this.#carry.take() + rest : rest;
    this.#isCarried = false;
    this.#line(this.#lineStart === 0 && line.startsWith(BYTE_ORDER_MARK) ? line.slice(BYTE_ORDER_MARK.length) : line);
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    if (this.#eventStart === -1) this.#eventStart = this.#lineStart;
    if (this.#oneEventPerLine) {
      this.#addData(line.startsWith('data:') ? fieldValue(line, 5) : line);
      this.#dispatch();
    } else if (line.startsWith('data:')) this.#addData(fieldValue(line, 5));
    else if (line.startsWith('event:')) {
      this.#eventName = fieldValue(line, 6).slice(0, MAX_EVENT_NAME);
      if (this.#events.endsByName(this.#eventName)) this.#terminate();
    } else if (line === 'data') this.#addData('');
    else if (line === 'event') this.#eventName = '';
  }

  #addData(value: string): void {
    if (this.#picker !== undefined) {
      this.#picker.push(`\n${value}`);
      return;
    }
    if (this.#data !== undefined) {
      this.#furtherData.push('\n');
      this.#furtherData.push(value);
      this.#hasFurther = true;
      if (this.#data.length + this.#furtherData.length > MAX_KEPT) this.#pickFromData();
      return;
    }
    // Only the first line is looked at by itself: looking at all data again with each further line would take quadratic
    // time.
    const { doneData, mayEndInside } = this.#events;
    if (this.#terminalStart === -1 && (value === doneData || (mayEndInside && this.#events.endsByData(value)))) this.#terminate();
    this.#data = value;
  }

  /** The data so far, and what follows, is not kept any longer. */
  #pickFromData(): JsonPicker {
    const picker = this.#events.picker();
    this.#picker = picker;
    if (this.#data !== undefined) picker.push(this.#takeData());
    return picker;
  }

  /** The data of the event; there is none afterwards. */
  #takeData(): string {
    const first = this.#data ?? '';
    this.#data = undefined;
    if (!this.#hasFurther) return first;
    this.#hasFurther = false;
    return first + this.#furtherData.take();
  }

  #terminate(): void {
    if (this.#terminalStart === -1) this.#terminalStart = this.#eventStart;
  }

  #dispatch(): void {
    if (this.#picker !== undefined) {
      this.#picker.end();
      if (this.#ended && this.#picker.depth > 0) this.#isCut = true;
      this.#events.read('', this.#eventName);
    } else if (this.#data !== undefined) {
      const data = this.#hasFurther ? this.#takeData() : this.#data;
      if (this.#ended && parsed(data) === undefined) this.#isCut = true;
      this.#events.read(data, this.#eventName);
    }
    if (this.#events.done && this.#terminalStart === -1) this.#terminate();
    if (this.#watch && this.#terminalStart === -1 && !this.#ended) this.#stops = endsHere(this.#watch);
    this.#picker = undefined;
    this.#data = undefined;
    this.#eventName = '';
    this.#eventStart = -1;
  }

  /**
   * Keeps the beginning of a line whose end is not here yet; of one that grows too large only its data is looked at.
   */
  #keep(piece: string): void {
    if (this.#inLongLine) {
      this.#picker?.push(piece);
      return;
    }
    this.#carry.push(piece);
    this.#isCarried = true;
    if (this.#carry.length <= MAX_KEPT) {
      // `data: [DONE]` without its line end may be all that ever comes, and is enough for some clients.
      if (this.#terminalStart === -1 && this.#data === undefined && this.#events.isDoneData(this.#carry.text, 'data:')) {
        this.#terminalStart = this.#eventStart === -1 ? this.#lineStart : this.#eventStart;
      }
      return;
    }
    const line = this.#carry.take();
    this.#isCarried = false;
    this.#inLongLine = true;
    if (this.#eventStart === -1) this.#eventStart = this.#lineStart;
    const isData = this.#oneEventPerLine || line.startsWith('data:');
    if (!isData) return;
    const value = line.startsWith('data:') ? fieldValue(line, 5) : line;
    const picker = this.#picker ?? this.#pickFromData();
    picker.push(`\n${value}`);
  }
}

/** What stands behind the colon, without one leading space. */
function fieldValue(line: string, from: number): string {
  return line.slice(line.charCodeAt(from) === SPACE ? from + 1 : from);
}
