import type { OutgoingHttpHeaders } from 'node:http';

/** An empty field list for node:http2, without the names that every object has: they are field names like any other. */
export function noFields(): OutgoingHttpHeaders {
  return Object.create(null) as OutgoingHttpHeaders;
}
