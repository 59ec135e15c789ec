import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { createDecoder, DECODABLE, encodingOf } from '../../base/lib/decoder.ts';
import type { DecodeOutcome } from '../../base/lib/decoder-gate.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import type { BufferHold } from './buffer-budget.ts';

/** Whose body is decoded, and how much may come of it. */
export interface DecodedFor {
  /** Of the client who waits for it. */
  readonly reply: ReplySink | undefined;
  /** What a body is refused for that is not what its encoding says. */
  readonly brokenAs: 'ambiguous_body' | 'invalid_request';
  readonly held: BufferHold;
  readonly maxBodyBytes: number;
}

/**
 * Refuses, from the head alone, a body in an encoding or a chain of encodings that policy could not read (decision
 * 3.20).
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
 * Decodes a compressed body for policy: beside the event loop, never beyond `GW_MAX_BODY_BYTES` or the buffer budget
 * (decision 3.20). A body without encoding comes back as it is.
 * @throws GatewayError `unsupported_encoding`, `body_too_large`, `overloaded`; `brokenAs` for bytes that are not what
 * their encoding says
 */
export async function decodeBody(
  { reply, brokenAs, held, maxBodyBytes }: DecodedFor,
  bytes: Uint8Array,
  contentEncoding: string | undefined,
): Promise<Uint8Array> {
  if (encodingOf(contentEncoding) === undefined || bytes.length === 0) return bytes;
  const pieces = new ByteCollector();
  let refusal: Error | undefined;
  const decoder = createDecoder(contentEncoding, {
    maxBytes: maxBodyBytes,
    onData: (piece) => {
      if (refusal !== undefined) return;
      try {
        held.take(piece.length);
        pieces.push(piece);
      } catch (error) {
        refusal = error instanceof Error ? error : new Error(String(error), { cause: error });
        decoder?.abort();
      }
    },
  });
  reply?.onGone(() => decoder?.abort());
  await decoder?.push(bytes);
  const outcome = await decoder?.end();
  if (refusal !== undefined) throw refusal;
  if (reply?.gone) throw new GatewayError('client_gone', 'The client left while its body was decoded.');
  if (outcome !== 'complete') throw failure({ brokenAs, maxBodyBytes }, outcome, decoder?.reason);
  return pieces.take();
}

type Bounds = Pick<DecodedFor, 'brokenAs' | 'maxBodyBytes'>;

function failure({ brokenAs, maxBodyBytes }: Bounds, outcome: DecodeOutcome | undefined, reason: string | undefined): GatewayError {
  if (outcome === 'capped') return new GatewayError('body_too_large', `The body decodes to more than ${maxBodyBytes} bytes.`);
  if (outcome !== 'broken') {
    return new GatewayError(
      'unsupported_encoding',
      `The body is encoded in a way that policy cannot read.${reason === undefined ? '' : ` ${reason}`}`,
    );
  }
  return new GatewayError(brokenAs, 'The body is not what its Content-Encoding says, or it is cut.');
}
