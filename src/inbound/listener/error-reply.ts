import { STATUS_CODES } from 'node:http';
import { codeOf, GatewayError } from '../../base/lib/gateway-error.ts';

/** Parser and server errors of node:http that are not plain bad framing. */
const BY_NODE_CODE: Readonly<Record<string, GatewayError>> = {
  HPE_HEADER_OVERFLOW: new GatewayError('headers_too_large', 'The request head is too large.'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new GatewayError('bad_framing', 'The chunk extensions are too large.'),
  ERR_HTTP_REQUEST_TIMEOUT: new GatewayError('request_timeout', 'The request did not arrive in time.'),
};
const BAD_FRAMING = new GatewayError('bad_framing', 'The request is not well-formed HTTP/1.1.');

/** The answer to what node:http could not parse; undefined when there is nobody left to answer. */
export function errorOfClient(error: Error): GatewayError | undefined {
  const code = codeOf(error);
  if (code === 'ECONNRESET' || code === 'EPIPE') return undefined;
  return BY_NODE_CODE[code] ?? BAD_FRAMING;
}

/**
 * The error body of decision 8.1 as a whole HTTP/1.1 message that ends its connection, for sockets without a response
 * object.
 */
export function rawErrorReply(error: GatewayError, extra: readonly string[] = [], status: number = error.status): string {
  const body = JSON.stringify(error.toBody());
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  for (let i = 0; i + 1 < extra.length; i += 2) head += `${extra[i]}: ${extra[i + 1]}\r\n`;
  return `${head}Connection: close\r\n\r\n${body}`;
}
