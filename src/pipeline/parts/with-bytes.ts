import { encodingOf } from '../../base/lib/decoder.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { signedHeaders } from '../../outbound/connectors/auth.ts';
import type { Content, Intake } from './parts.ts';

const CONTENT_ENCODING = 'content-encoding';

/** A body that changed is sent as it is now, not compressed again (decision 3.20). */
export function withBytes(content: Content, bytes: Uint8Array, intake: Intake | undefined): Content {
  const headers = withoutEncoding(content.headers);
  if (intake?.upload) {
    intake.upload.replaceHead(bytes);
    return { ...content, headers };
  }
  return { ...content, headers, bytes: bytes.length === 0 ? undefined : bytes };
}

/**
 * A body that came in a spelling which some readers take and others refuse is sent in the one that all take, and is
 * what policy read: JSON without a byte order mark, one encoding without a list around it (decision 3.20). What its
 * caller signed stays as it came.
 * @param plain what policy was given to read, decoded
 */
export function inUsualSpelling(content: Content, plain: Uint8Array, head: ArrivalHead, intake: Intake): Content {
  const { body } = content;
  const isMarked = body !== undefined && body.bytes.length !== plain.length;
  const said = head.headers[CONTENT_ENCODING];
  if (!isMarked && said?.includes(',') !== true) return content;
  if (signedHeaders(head.headers['authorization'], head.rawTarget) !== undefined) return content;
  if (isMarked) return withBytes(content, body.bytes, intake);
  const headers = withoutEncoding(content.headers);
  const encoding = encodingOf(said);
  if (encoding !== undefined) headers.push('Content-Encoding', encoding);
  return { ...content, headers };
}

function withoutEncoding(headers: readonly string[]): string[] {
  return headers.filter((_, at) => headers[at - (at % 2)]?.toLowerCase() !== CONTENT_ENCODING);
}
