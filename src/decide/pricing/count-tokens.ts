/** Bytes of UTF-8 that make a token on average. */
const BYTES_PER_TOKEN = 4;
/** An image, a sound or a document that is sent inside the body, whatever its size. */
const ATTACHMENT_BYTES = 1024 * BYTES_PER_TOKEN;
/** Parsed bodies nest no deeper; anything below counts nothing. */
const MAX_DEPTH = 64;
/** Members that hold base64 data, when one of the second list stands beside them. */
const DATA_NAMES = ['data', 'file_data', 'b64_json'];
const DATA_TYPE_NAMES = ['media_type', 'mimeType', 'mime_type', 'format', 'filename'];

/**
 * Tokens of a prompt, approximated: every text and every member name by its UTF-8 bytes, four to a token and rounded up at the end; a number, true or
 * false is one token (a prompt may be a list of token ids); attachments in base64 (a `data:` URL, or a `data` member beside its type) are 1,024 tokens
 * each. Walks the values, makes no copy.
 */
export function countTokens(values: readonly unknown[]): number {
  let bytes = 0;
  for (const value of values) bytes += bytesOf(value, 0);
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

function bytesOf(value: unknown, depth: number): number {
  if (typeof value === 'string') return textBytes(value);
  if (typeof value === 'number' || typeof value === 'boolean') return BYTES_PER_TOKEN;
  if (typeof value !== 'object' || value === null || depth >= MAX_DEPTH) return 0;
  let bytes = 0;
  if (Array.isArray(value)) {
    for (const item of value) bytes += bytesOf(item, depth + 1);
    return bytes;
  }
  for (const [name, member] of Object.entries(value)) {
    const attached = typeof member === 'string' && DATA_NAMES.includes(name) && DATA_TYPE_NAMES.some((type) => Object.hasOwn(value, type));
    bytes += name.length + (attached ? Math.min(ATTACHMENT_BYTES, member.length) : bytesOf(member, depth + 1));
  }
  return bytes;
}

function textBytes(text: string): number {
  const attached = text.startsWith('data:') && text.slice(0, 128).includes(';base64,');
  return attached ? Math.min(ATTACHMENT_BYTES, text.length) : Buffer.byteLength(text);
}
