import { type ServerResponse, STATUS_CODES, validateHeaderName } from 'node:http';
import { httpDate } from '../../base/lib/clock.ts';
import { KnownNames } from '../../base/lib/known-names.ts';

/** A larger body is not worth being copied behind its head. */
const MAX_ONE_TEXT = 16 * 1024;
/** RFC 9110 §5.5: HTAB, SP, VCHAR, obs-text. */
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** Spellings of names that may be sent, and whether one is `Date`. */
const KNOWN_NAMES = new KnownNames<boolean>();

export interface WholeAnswer {
  /** Of a final answer. */
  readonly status: number;
  /**
   * As `http1Fields` makes them, Content-Length among them; `Connection` only where it says more than that the
   * connection stays.
   */
  readonly fields: readonly string[];
  readonly body: Uint8Array;
  /** Epoch milliseconds, for `Date`. */
  readonly now: number;
  /** What the client is told of idle connections. */
  readonly keepAliveMs: number;
}

/**
 * True when an answer behind which the connection stays open may leave by {@link writeWhole}: nothing of it or of an
 * earlier one is on its way.
 */
export function canWriteWhole(response: ServerResponse, body: Uint8Array): boolean {
  return body.length <= MAX_ONE_TEXT && response.socket?.writable === true && response.writableLength === 0;
}

/**
 * Writes head and body as one text straight to the connection. `ServerResponse` keeps book of the lines of a head, and
 * corks the connection for two pieces that it gathers; here it is only told that the answer has ended, since it sees to
 * the connection's next request.
 * @throws Error for a name or value that HTTP does not have; nothing is written then
 */
export function writeWhole(response: ServerResponse, answer: WholeAnswer): void {
  const { body } = answer;
  const text = headOf(answer) + Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1');
  response.socket?.write(text, 'latin1', (error) => {
    // A connection that broke tells of it by itself.
    if (!error) response.emit('finish');
  });
}

function headOf({ status, fields, now, keepAliveMs }: WholeAnswer): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`;
  let dated = false;
  let connection = false;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] ?? '';
    const value = fields[i + 1] ?? '';
    const isDate = KNOWN_NAMES.found.get(name) ?? KNOWN_NAMES.learn(name, admitName);
    dated ||= isDate;
    connection ||= name === 'Connection';
    if (NOT_A_VALUE.test(value)) throw new TypeError(`invalid character in the field ${name}`);
    head += `${name}: ${value}\r\n`;
  }
  if (!dated) head += `Date: ${httpDate(now)}\r\n`;
  return connection ? `${head}\r\n` : `${head}Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`;
}

/** @returns true for `Date` */
function admitName(name: string): boolean {
  validateHeaderName(name);
  return name.toLowerCase() === 'date';
}
