import { type DestinationStream, pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { timestamp } from './clock.ts';
import { LineWriter } from './line-writer.ts';
import type { LogFormat, LogLevel } from './log-forms.ts';
import { shownJson, shownLines, shownText, terminalOutput } from './shown-text.ts';
import { shorten } from './text.ts';

/**
 * One line per event. Callers never pass a secret, a header, a prompt or a completion: nothing is filtered here, since
 * a filter that is relied on fails in silence.
 */
export interface Logger {
  trace(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A logger whose lines all carry `fields`. */
  child(fields: Readonly<Record<string, unknown>>): Logger;
  /** True when lines of this level are written; asks before costly fields are made. */
  isLevelEnabled(level: string): boolean;
  /** Hands what is buffered to the operating system. */
  flush(): void;
}

const STANDARD_OUTPUT = 1;

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Default: standard output, written behind the event loop and flushed at exit. */
  readonly destination?: DestinationStream;
  /**
   * How the pretty form shows a line of its own kind, with its line end; undefined: as all others.
   * @param line parsed
   * @param colours whether they show
   */
  readonly prettyLine?: PrettyLine;
}

type PrettyLine = (line: Readonly<Record<string, unknown>>, colours: boolean) => string | undefined;

export function createLogger(options: LoggerOptions): Logger {
  const { level, format } = options;
  const sink = format === 'pretty' ? prettySink(options) : (options.destination ?? standardOutput());
  const logger = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${timestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
      // `error` is the code of a call that failed, too: a text stays one.
      serializers: { err: errorFields, error: (told: unknown) => (told instanceof Error ? errorFields(told) : told) },
      ...(format === 'json' ? { hooks: { streamWrite: shownLine } } : {}),
    },
    sink,
  );
  return Object.assign(logger, { [AS_JSON]: lineBy((logger as unknown as PinoInside)[AS_JSON]) });
}

const AS_JSON: typeof pino.symbols.asJsonSym = pino.symbols.asJsonSym;
const LEVELS: typeof pino.symbols.lsCacheSym = pino.symbols.lsCacheSym;
const BINDINGS: typeof pino.symbols.chindingsSym = pino.symbols.chindingsSym;

type WordLine = (
  this: PinoInside,
  fields: Readonly<Record<string, unknown>>,
  message: string | undefined,
  level: number,
  time: string,
) => string;

/** What pino makes a line of, by its own symbols. */
interface PinoInside {
  readonly [AS_JSON]: WordLine;
  /** The beginning of a line for each level. */
  readonly [LEVELS]: Readonly<Record<number, string>>;
  readonly [BINDINGS]: string;
}

/**
 * Words a line in one step: pino goes through the fields one by one, which costs four times as much, and there is a
 * line for each call. Errors, and what JSON cannot say, are worded by pino.
 */
function lineBy(byPino: WordLine): WordLine {
  return function word(fields, message, level, time) {
    const { err, error } = fields;
    if (err !== undefined || typeof error === 'object' || message === undefined) return byPino.call(this, fields, message, level, time);
    let text: string;
    try {
      text = JSON.stringify(fields);
    } catch {
      return byPino.call(this, fields, message, level, time);
    }
    const told = text.length > 2 ? `,${text.slice(1, -1)}` : '';
    return `${this[LEVELS][level]}${time}${this[BINDINGS]}${told},"msg":${JSON.stringify(message)}}\n`;
  };
}

const PLAIN = /^[ -~\n]*$/;

/**
 * Lines of JSON are read at terminals as well (`docker logs`, `journalctl`), and pino escapes the controls of ASCII
 * alone. Nearly all lines are plain.
 */
function shownLine(line: string): string {
  return PLAIN.test(line) ? line : shownJson(line);
}

/** What errors of packages carry beside their message can be the bytes that they failed at. */
const MAX_ERROR_TEXT = 8_192;

function errorFields(error: Error): object {
  const told: unknown = pino.stdSerializers.err(error);
  if (typeof told !== 'object' || told === null) return { message: shorten(String(told), MAX_ERROR_TEXT) };
  // `message` and `stack` are no own members of what the serializer gives.
  const { type, message, stack, code } = told as Readonly<Record<string, unknown>>;
  const kept = Object.entries({ type, message, stack, code }).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(kept.map(([name, value]) => [name, shorten(String(value), MAX_ERROR_TEXT)]));
}

let output: LineWriter | undefined;

function standardOutput(): LineWriter {
  if (output === undefined) {
    const writer = new LineWriter(STANDARD_OUTPUT);
    process.on('exit', () => writer.flush());
    output = writer;
  }
  return output;
}

/**
 * For people at a terminal: written at once, coloured only where colours show; what strangers chose is shown there as
 * on every terminal.
 */
function prettySink({ destination, prettyLine }: LoggerOptions): DestinationStream {
  const colorize = destination === undefined && process.stdout.isTTY === true;
  const format = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', colorize });
  // A reader that has gone must not end the gateway: its lines are lost, as they are for every reader that is not
  // there.
  const sink = destination ?? pino.destination({ fd: STANDARD_OUTPUT, sync: true }).on('error', () => undefined);
  const told = (line: string): string => {
    const own = prettyLine?.(JSON.parse(line) as Readonly<Record<string, unknown>>, colorize);
    return own ?? format(withShownTexts(line));
  };
  return { write: (line: string) => sink.write(terminalOutput(told(line), colorize)) };
}

/** Members that the pretty form does not quote; in all others line breaks and escape sequences are escapes of JSON. */
const BARE: Readonly<Record<string, (text: string) => string>> = {
  ...Object.fromEntries(
    ['msg', 'message', 'name', 'hostname', 'pid', 'caller'].map((name) => [name, (text: string) => shownText(text, 'terminal')]),
  ),
  stack: (text) => shownLines(text, 'terminal'),
};

function withShownTexts(line: string): object {
  const shown: unknown = JSON.parse(line, (name, value: unknown) => (typeof value === 'string' ? (BARE[name]?.(value) ?? value) : value));
  return Object(shown) as object;
}

/** Writes nothing; for tests and one-shot commands. */
export const silentLogger: Logger = pino({ level: 'silent', enabled: false });
