/**
 * Framing, hop-by-hop, encoding and what is the gateway's own: neither a caller of the structured API nor a mutation
 * may set it (decisions 3.21, 8.4).
 */
const FIXED: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  // It would make the provider read another body than policy did.
  'content-encoding',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'via',
  'http2-settings',
  'gw-admin-token',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
]);

/** Headers in which the providers of the registry take a key, or what belongs to one. */
export const AUTH_HEADERS: readonly string[] = [
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'xi-api-key',
  'x-amz-security-token',
];

/** True when neither a caller nor a mutation may set this header; the name is in lower case. */
export function isFixedHeader(lowerName: string): boolean {
  return FIXED.has(lowerName) || lowerName.startsWith('proxy-') || lowerName.startsWith('x-gw-') || lowerName.startsWith(':');
}
