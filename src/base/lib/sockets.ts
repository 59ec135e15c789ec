import type { OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';

/**
 * True when the other side has broken the connection. Who reads or writes is told; for whoever holds back, sweeps ask.
 * node:http2 holds back by itself now and then, and forgets to go on when the connection breaks meanwhile. Asking costs
 * 7 µs: ask for those only whom nobody reads from. False on a Node without the private handle.
 */
export function isBroken(socket: Socket): boolean {
  // The system knows the peer of a connection for as long as there is one. node:net repeats what it once was told, only
  // the handle asks.
  const handle: unknown = Reflect.get(socket, '_handle');
  return knowsPeer(handle) && handle.getpeername({}) !== 0;
}

function knowsPeer(handle: unknown): handle is { getpeername(out: object): number } {
  return typeof handle === 'object' && handle !== null && 'getpeername' in handle && typeof handle.getpeername === 'function';
}

/** True when the system has taken all that was to be written. False on a Node without the private handle. */
export function hasWrittenAll(socket: Socket): boolean {
  const handle: unknown = Reflect.get(socket, '_handle');
  return typeof handle === 'object' && handle !== null && Reflect.get(handle, 'writeQueueSize') === 0;
}

/**
 * Breaks a connection so that the other side sees it broken. One whose end is on its way already is closed: libuv
 * refuses to reset it (`uv_tcp_close_reset`), and node:net then neither closes the handle nor tells of the close.
 */
export function resetSocket(socket: Socket): void {
  const ending = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
  if (ending) socket.destroy();
  else socket.resetAndDestroy();
}

/**
 * What node:http takes for a request that changes to another protocol: what stands behind its head is none of its own.
 */
const NOT_HTTP = 2;
const skip = (): number => NOT_HTTP;

/**
 * Reads no further request of a connection of a `node:http` server that is over. What was read at a time holds
 * thousands of them, and node:http makes the objects of each, also when the connection was reset meanwhile. The body
 * that is arriving still comes. Without effect on a Node without the private parser.
 */
export function stopParsing(socket: Socket): void {
  const parser: unknown = Reflect.get(socket, 'parser');
  if (typeof parser === 'object' && parser !== null && 'onIncoming' in parser) parser.onIncoming = skip;
}

/** An empty field list for node:http2, without the names that every object has: they are field names like any other. */
export function noFields(): OutgoingHttpHeaders {
  return Object.create(null) as OutgoingHttpHeaders;
}

/** What RFC 9113 §6.5.2 adds to a field's name and value. */
const FIELD_OVERHEAD = 32;

/**
 * Bytes of a decoded field list as SETTINGS_MAX_HEADER_LIST_SIZE counts them. node:http2 holds a peer to that only once
 * it has acknowledged the setting, which it may never do: some bytes on the wire are megabytes then.
 * @param rawFields the flat list that node:http2 gives with a head, which its types leave out
 */
export function fieldListBytes(rawFields: unknown): number {
  if (!Array.isArray(rawFields)) return 0;
  let bytes = (rawFields.length / 2) * FIELD_OVERHEAD;
  for (const text of rawFields) if (typeof text === 'string') bytes += text.length;
  return bytes;
}

/**
 * `maxSessionMemory` of every h2 session, megabytes: a bound that is never met. node:http2 counts what a stream had not
 * sent yet when it was reset, or left, as memory of its session for as long as that lives, though it is free, and
 * refuses all further streams with ENHANCE_YOUR_CALM at ten megabytes, which some hundred streams that break off in the
 * middle come to. What a session really holds is bounded by its streams: their number, windows, fields and queues.
 */
export const SESSION_MEMORY_MB = 1_000_000;
