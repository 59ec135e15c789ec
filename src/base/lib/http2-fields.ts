import type { OutgoingHttpHeaders } from 'node:http';

/** An empty field list for node:http2, without the names that every object has: they are field names like any other. */
export function noFields(): OutgoingHttpHeaders {
  return Object.create(null) as OutgoingHttpHeaders;
}

/** What RFC 9113 §6.5.2 adds to a field's name and value. */
const FIELD_OVERHEAD = 32;

/**
 * Bytes of a decoded field list as SETTINGS_MAX_HEADER_LIST_SIZE counts them. node:http2 holds a peer to that only once it has acknowledged the setting, which
 * it may never do: some bytes on the wire are megabytes then.
 * @param rawFields the flat list that node:http2 gives with a head, which its types leave out
 */
export function fieldListBytes(rawFields: unknown): number {
  if (!Array.isArray(rawFields)) return 0;
  let bytes = (rawFields.length / 2) * FIELD_OVERHEAD;
  for (const text of rawFields) if (typeof text === 'string') bytes += text.length;
  return bytes;
}
