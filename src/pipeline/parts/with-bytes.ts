import type { Content, Intake } from './parts.ts';

/** A body that changed is sent as it is now, not compressed again (decision 3.20). */
export function withBytes(content: Content, bytes: Uint8Array, intake: Intake | undefined): Content {
  const headers = content.headers.filter((_, at) => content.headers[at - (at % 2)]?.toLowerCase() !== 'content-encoding');
  if (intake?.upload) {
    intake.upload.replaceHead(bytes);
    return { ...content, headers };
  }
  return { ...content, headers, bytes: bytes.length === 0 ? undefined : bytes };
}
