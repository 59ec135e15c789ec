import { GatewayError } from '../../base/lib/gateway-error.ts';

/** What the framing fields of one HTTP/1 head say. */
export interface Framing {
  /** Undefined when chunked; 0 when there is no body. */
  readonly declaredLength: number | undefined;
}

const CHUNKED: Framing = { declaredLength: undefined };
/** Of the names that matter: nearly every field is told apart by its length alone. */
const LENGTHS: ReadonlySet<number> = new Set(['host', 'content-length', 'transfer-encoding'].map((name) => name.length));
const EMPTY: Framing = { declaredLength: 0 };

/**
 * Judges the framing of an HTTP/1 request from its raw fields, since the parser accepts some that two readers could
 * take differently (decision 3.16): another version than 1.0 and 1.1, duplicate Host, several or unknown
 * Transfer-Encoding values, Transfer-Encoding with Content-Length or on HTTP/1.0, repeated Content-Length.
 * @returns GatewayError `bad_framing` for what is refused
 */
export function framingOf(rawHeaders: readonly string[], httpVersion: string): Framing | GatewayError {
  let hosts = 0;
  let encodings = 0;
  let encoding = '';
  let lengths = 0;
  let length = '';
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (!LENGTHS.has(name.length)) continue;
    switch (name.toLowerCase()) {
      case 'host':
        hosts++;
        break;
      case 'transfer-encoding':
        encodings++;
        encoding = rawHeaders[i + 1] ?? '';
        break;
      case 'content-length':
        lengths++;
        length = rawHeaders[i + 1] ?? '';
        break;
    }
  }
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return refused(`The request says HTTP/${httpVersion}; HTTP/1.1 and 1.0 are read here.`);
  if (hosts > 1) return refused('The request has more than one Host field.');
  if (hosts === 0 && httpVersion === '1.1') return refused('The request has no Host field.');
  if (encodings > 0) return chunked(encodings, encoding, lengths, httpVersion);
  return lengths === 0 ? EMPTY : declared(lengths, length);
}

function chunked(encodings: number, encoding: string, lengths: number, httpVersion: string): Framing | GatewayError {
  if (encodings > 1) return refused('The request has more than one Transfer-Encoding field.');
  if (encoding.toLowerCase() !== 'chunked') return refused('The only Transfer-Encoding that is accepted is "chunked".');
  if (lengths > 0) return refused('The request has both Transfer-Encoding and Content-Length.');
  return httpVersion === '1.0' ? refused('HTTP/1.0 knows no Transfer-Encoding.') : CHUNKED;
}

function declared(lengths: number, text: string): Framing | GatewayError {
  if (lengths > 1) return refused('The request has more than one Content-Length field.');
  return /^\d{1,15}$/.test(text) ? { declaredLength: Number(text) } : refused('The Content-Length of the request is not a number.');
}

function refused(message: string): GatewayError {
  return new GatewayError('bad_framing', message);
}
