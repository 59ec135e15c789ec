import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost, formatAuthority } from '../../base/lib/host.ts';
import { KnownNames } from '../../base/lib/known-names.ts';
import { shorten } from '../../base/lib/text.ts';
import type { CallInLane, LaneOptions } from './lane.ts';
import { absoluteForm, type ParentProxy } from './parent-proxy.ts';
import type { UpstreamCall } from './upstream.ts';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** RFC 9110 §5.5: HTAB, SP, VCHAR, obs-text. */
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_A_TARGET = /[^\x21-\xff]/;
/** Written here and nowhere else. */
const FRAMING_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/** Methods whose semantics expect a body, so that its absence is said, too (RFC 9110 §8.6). */
const EXPECTS_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH']);

/** Spellings of names that may be sent. */
const SENDABLE = new KnownNames<true>();

/** Value of Host. The default port of the scheme is left out, as every client does. */
export function hostHeader({ authority, tls }: Pick<UpstreamCall, 'authority' | 'tls'>): string {
  const host = bracketHost(authority.host);
  return authority.port === (tls ? 443 : 80) ? host : `${host}:${authority.port}`;
}

/** The request's target: in absolute form where a parent proxy takes it. */
export function targetOf({ authority, path }: UpstreamCall, parent: ParentProxy | undefined): string {
  return parent === undefined ? path : absoluteForm(authority, path);
}

/** The fields that are the same for every request to one origin: Host, Connection, and the parent's credentials. */
export function originFields(options: LaneOptions): string {
  const { parent } = options;
  const credentials = parent?.authorization === undefined ? '' : `Proxy-Authorization: ${parent.authorization}\r\n`;
  return `host: ${hostHeader(options)}\r\nconnection: keep-alive\r\n${credentials}`;
}

/**
 * The head of a request without its last, empty line: request line, the origin's fields, those of the caller.
 * @throws GatewayError `invalid_request` for what cannot be sent, or could be read as something else by the upstream
 */
export function requestHead({ request }: CallInLane, parent: ParentProxy | undefined, fields: string): string {
  const { method, headers } = request;
  const target = targetOf(request, parent);
  if (!TOKEN.test(method)) throw unsendable(request, 'invalid request method');
  if (target === '' || (parent === undefined && target.charCodeAt(0) !== 0x2f)) throw unsendable(request, 'path must start with a slash');
  if (NOT_A_TARGET.test(target)) throw unsendable(request, 'invalid request path');
  let head = `${method} ${target} HTTP/1.1\r\n${fields}`;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    const value = headers[i + 1] ?? '';
    if (SENDABLE.found.get(name) === undefined) SENDABLE.learn(name, (own) => admitName(own, request));
    if (NOT_A_VALUE.test(value)) throw unsendable(request, `invalid ${shorten(name)} header`);
    head += `${name}: ${value}\r\n`;
  }
  return head;
}

/**
 * True when a request without a body says `Content-Length: 0`; a body of any other method makes servers unsure where
 * the next request begins.
 */
export function expectsBody(method: string): boolean {
  return EXPECTS_BODY.has(method);
}

function admitName(name: string, request: UpstreamCall): true {
  if (!TOKEN.test(name)) throw unsendable(request, 'invalid header name');
  if (FRAMING_FIELDS.has(name.toLowerCase())) throw unsendable(request, `${shorten(name)} is written by the gateway itself`);
  return true;
}

function unsendable({ authority }: UpstreamCall, reason: string): GatewayError {
  return new GatewayError('invalid_request', `The request cannot be sent to ${formatAuthority(authority)}: ${reason}.`);
}
