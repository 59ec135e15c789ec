/** How the body of an answer ends, and whether its connection may serve another call (RFC 9112 §6.3, §9.3). */
export interface AnswerFraming {
  readonly kind: 'length' | 'chunked' | 'close';
  /** Bytes of the body; 0 unless `kind` is `length`. */
  readonly length: number;
  /** The upstream keeps the connection. */
  readonly keepsAlive: boolean;
  /** Seconds of `Keep-Alive: timeout=`. */
  readonly timeout: number | undefined;
}

/** What the fields of a head say of its framing; each kind of field is counted. */
interface Said {
  lengths: number;
  length: string;
  codings: number;
  coding: string;
  close: boolean;
  keepAlive: boolean;
  timeout: number | undefined;
}

const LENGTH = /^\d{1,15}$/;
const TIMEOUT = /(?:^|[,;\s])timeout\s*=\s*(\d{1,9})/i;

/**
 * @param rawHeaders flat name, value list of a final answer
 * @param minor of the version, 0 or 1
 * @param isHead the request was HEAD
 * @returns a text that says why the framing is not clear; nobody guesses then
 */
export function framingOfAnswer(rawHeaders: readonly string[], status: number, minor: number, isHead: boolean): AnswerFraming | string {
  const said = read(rawHeaders);
  const doubt = doubtOf(said, minor);
  if (doubt !== undefined) return doubt;
  const keepsAlive = !said.close && (minor === 1 || said.keepAlive);
  const { timeout } = said;
  if (isHead || status === 204 || status === 304) return { kind: 'length', length: 0, keepsAlive, timeout };
  if (said.codings === 1) return { kind: 'chunked', length: 0, keepsAlive, timeout };
  if (said.lengths === 1) return { kind: 'length', length: Number(said.length), keepsAlive, timeout };
  return { kind: 'close', length: 0, keepsAlive: false, timeout };
}

function doubtOf(said: Said, minor: number): string | undefined {
  if (said.lengths > 1) return 'more than one Content-Length';
  if (said.lengths === 1 && !LENGTH.test(said.length)) return 'a Content-Length that is no number';
  if (said.codings > 1) return 'more than one Transfer-Encoding';
  if (said.codings === 1 && said.coding.toLowerCase() !== 'chunked')
    return 'a Transfer-Encoding other than chunked, which nobody asked for';
  if (said.codings === 1 && said.lengths === 1) return 'both Transfer-Encoding and Content-Length';
  return said.codings === 1 && minor === 0 ? 'Transfer-Encoding in HTTP/1.0' : undefined;
}

function read(rawHeaders: readonly string[]): Said {
  const said: Said = { lengths: 0, length: '', codings: 0, coding: '', close: false, keepAlive: false, timeout: undefined };
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const { length } = name;
    // Nearly every field is told apart by the length of its name.
    if (length !== 10 && length !== 14 && length !== 17) continue;
    const value = rawHeaders[i + 1] ?? '';
    switch (name.toLowerCase()) {
      case 'content-length':
        said.lengths++;
        said.length = value;
        break;
      case 'transfer-encoding':
        said.codings++;
        said.coding = value;
        break;
      case 'connection':
        noteConnection(said, value.toLowerCase());
        break;
      case 'keep-alive':
        said.timeout ??= timeoutOf(value);
        break;
      default:
    }
  }
  return said;
}

function noteConnection(said: Said, value: string): void {
  for (const token of value.split(',')) {
    const option = token.trim();
    if (option === 'close') said.close = true;
    else if (option === 'keep-alive') said.keepAlive = true;
  }
}

function timeoutOf(value: string): number | undefined {
  const digits = TIMEOUT.exec(value)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Sizes and extensions of chunks, beyond what {@link idleBytes} grants, of one answer. */
export const MAX_IDLE_BYTES = 16_384;
/** Granted beside the data of each chunk, and twice as much as that has. */
export const IDLE_PER_CHUNK = 16;

/**
 * What chunks had so far that is no data, beyond what each may have.
 * @param line bytes of the next one's size and extension
 * @param data bytes that it announces
 */
export function idleBytes(before: number, line: number, data: number): number {
  return Math.max(0, before + line - IDLE_PER_CHUNK - 2 * data);
}
