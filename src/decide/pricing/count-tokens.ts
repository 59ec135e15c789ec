import { textTokens } from './text-tokens.ts';

/** An image, a sound or a document that is sent inside the body, whatever its size. */
const ATTACHMENT_TOKENS = 1024;
/** What stands around a member: quotes, braces, the separators of messages. */
const MEMBER_TOKENS = 1;
/** Of base64 in an attachment that is smaller. */
const BASE64_PER_TOKEN = 4;
/** Parsed bodies nest no deeper; anything below counts nothing. */
const MAX_DEPTH = 64;
/** Members that hold base64 data, when one of the second list stands beside them. */
const DATA_NAMES = ['data', 'file_data', 'b64_json'];
/** What JSON of AWS calls base64, and where Ollama keeps a list of it. */
const BYTES_NAME = 'bytes';
const IMAGES_NAME = 'images';
const DATA_TYPE_NAMES = ['media_type', 'mimeType', 'mime_type', 'format', 'filename'];
/** Tokens of the names that stand in nearly every message, counted once. */
const USUAL_NAMES: ReadonlyMap<string, number> = new Map(
  ['role', 'content', 'type', 'text', 'parts'].map((name) => [name, textTokens(name)]),
);

/**
 * Tokens of a prompt, approximated: every text and every member name by `textTokens`, one more for each member, rounded up at the end; a number, true or false is one token (a prompt may
 * be a list of token ids); attachments in base64 (a `data:` URL, a `data` member beside its type, `bytes`, a list of `images`) are at most 1,024 tokens each. Walks the values,
 * makes no copy.
 */
export function countTokens(values: readonly unknown[]): number {
  let tokens = 0;
  for (const value of values) tokens += tokensOf(value, 0);
  return Math.ceil(tokens);
}

function tokensOf(value: unknown, depth: number): number {
  if (typeof value === 'string') return isDataUrl(value) ? attachmentTokens(value) : textTokens(value);
  if (typeof value === 'number' || typeof value === 'boolean') return 1;
  if (typeof value !== 'object' || value === null || depth >= MAX_DEPTH) return 0;
  let tokens = 0;
  if (Array.isArray(value)) {
    for (const item of value) tokens += tokensOf(item, depth + 1);
    return tokens;
  }
  const members = value as Readonly<Record<string, unknown>>;
  // Not entries: a prompt of many short turns is mostly names, and each list of them would be made anew. What was parsed inherits no members.
  for (const name in members) {
    tokens += MEMBER_TOKENS + (USUAL_NAMES.get(name) ?? textTokens(name)) + memberTokens(name, members, depth + 1);
  }
  return tokens;
}

function memberTokens(name: string, members: Readonly<Record<string, unknown>>, depth: number): number {
  const member = members[name];
  if (typeof member === 'string') return isAttached(name, members) ? attachmentTokens(member) : tokensOf(member, depth);
  return name === IMAGES_NAME && Array.isArray(member) ? imagesTokens(member, depth) : tokensOf(member, depth);
}

function isAttached(name: string, beside: Readonly<Record<string, unknown>>): boolean {
  if (name === BYTES_NAME) return true;
  return DATA_NAMES.includes(name) && DATA_TYPE_NAMES.some((type) => Object.hasOwn(beside, type));
}

function imagesTokens(images: readonly unknown[], depth: number): number {
  return images.reduce<number>((sum, image) => sum + (typeof image === 'string' ? attachmentTokens(image) : tokensOf(image, depth + 1)), 0);
}

function isDataUrl(text: string): boolean {
  return text.startsWith('data:') && text.slice(0, 128).includes(';base64,');
}

function attachmentTokens(text: string): number {
  return Math.min(ATTACHMENT_TOKENS, text.length / BASE64_PER_TOKEN);
}
