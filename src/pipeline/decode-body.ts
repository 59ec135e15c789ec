import { ByteCollector } from '../base/lib/byte-collector.ts';
import { createDecoder, DECODABLE, encodingOf } from '../base/lib/decoder.ts';
import type { DecodeOutcome } from '../base/lib/decoder-gate.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Exchange } from './exchange.ts';
import type { Pipeline } from './stage.ts';

/**
 * Refuses, from the head alone, a body in an encoding or a chain of encodings that policy could not read (decision 3.20).
 * @throws GatewayError `unsupported_encoding`
 */
export function refuseUnreadable(contentEncoding: string | undefined): void {
  const encoding = encodingOf(contentEncoding);
  if (encoding !== undefined && !DECODABLE.includes(encoding)) {
    throw new GatewayError(
      'unsupported_encoding',
      `The body is encoded in a way that policy cannot read; one of ${DECODABLE.join(', ')} can be.`,
    );
  }
}

/**
 * Decodes a compressed body for policy: beside the event loop, never beyond `GW_MAX_BODY_BYTES` or the buffer budget (decision 3.20). A body without encoding
 * comes back as it is.
 * @throws GatewayError `unsupported_encoding`, `body_too_large`, `overloaded`; `ambiguous_body` (on the structured API `invalid_request`) for bytes that are
 * not what their encoding says
 */
export async function decodeBody(
  exchange: Exchange,
  bytes: Uint8Array,
  contentEncoding: string | undefined,
  { settings }: Pipeline,
): Promise<Uint8Array> {
  if (encodingOf(contentEncoding) === undefined || bytes.length === 0) return bytes;
  const pieces = new ByteCollector();
  let refusal: Error | undefined;
  const decoder = createDecoder(contentEncoding, {
    maxBytes: settings.maxBodyBytes,
    onData: (piece) => {
      if (refusal !== undefined) return;
      try {
        exchange.held?.take(piece.length);
        pieces.push(piece);
      } catch (error) {
        refusal = error instanceof Error ? error : new Error(String(error), { cause: error });
        decoder?.abort();
      }
    },
  });
  exchange.reply?.onGone(() => decoder?.abort());
  await decoder?.push(bytes);
  const outcome = await decoder?.end();
  if (refusal !== undefined) throw refusal;
  if (exchange.reply?.gone) throw new GatewayError('client_gone', 'The client left while its body was decoded.');
  if (outcome !== 'complete') throw failure(exchange, outcome, decoder?.reason, settings.maxBodyBytes);
  return pieces.take();
}

function failure(exchange: Exchange, outcome: DecodeOutcome | undefined, reason: string | undefined, limit: number): GatewayError {
  if (outcome === 'capped') return new GatewayError('body_too_large', `The body decodes to more than ${limit} bytes.`);
  if (outcome !== 'broken') {
    return new GatewayError(
      'unsupported_encoding',
      `The body is encoded in a way that policy cannot read.${reason === undefined ? '' : ` ${reason}`}`,
    );
  }
  const code = exchange.door === 'direct' ? 'invalid_request' : 'ambiguous_body';
  return new GatewayError(code, 'The body is not what its Content-Encoding says, or it is cut.');
}
