import { codeOf, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { formatAuthority } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';

/** How far a call had come when it failed. */
export type CallPhase = 'connecting' | 'sent' | 'answering';

export const NOT_HTTP = 'sent an answer that is not valid HTTP/1.1';
export const NOT_A_FIELD = 'sent a header field that HTTP does not have';
export const SWITCHED = 'switched to a protocol that nobody asked for';
/**
 * The last of the five classes of RFC 9110 §15. h2 clients could not be given a higher one, and the others would have
 * to guess what it means.
 */
export const MAX_STATUS = 599;
export const NO_STATUS = 'answered with a status that HTTP does not have';
/**
 * Interim answers before a final one: they pass at once, whether or not the client reads, so their number is bounded.
 */
export const MAX_INTERIM = 32;
export const ENDLESS_INTERIM = 'sent interim answers without an end';
export const TOO_LARGE = 'sent a head that is too large';
const CLIENT_CERTIFICATE = 'it asks for a client certificate, and the gateway has none (GW_PROXY_BYPASS passes the host on unopened)';

/** Our own code, beside those of Node, for a certificate that has no subject alternative name. */
export const NO_NAMES = 'GW_CERTIFICATE_WITHOUT_NAMES';

/** What people read about a certificate or handshake that failed, by OpenSSL's and Node's code. */
const TLS_FAULTS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate chain ends in a root that is not trusted (GW_UPSTREAM_CA_FILE adds one)',
  UNABLE_TO_GET_ISSUER_CERT: 'its certificate is signed by an issuer that is not trusted (GW_UPSTREAM_CA_FILE adds one)',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is signed by an issuer that is not trusted (GW_UPSTREAM_CA_FILE adds one)',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is signed by an issuer that is not trusted (GW_UPSTREAM_CA_FILE adds one)',
  CERT_UNTRUSTED: 'its certificate is not trusted',
  CERT_REJECTED: 'its certificate is not trusted',
  CERT_SIGNATURE_FAILURE: 'the signature of its certificate is wrong',
  CERT_CHAIN_TOO_LONG: 'its certificate chain is too long',
  INVALID_CA: 'a certificate of its chain may not sign others',
  INVALID_PURPOSE: 'its certificate is not for servers',
  HOSTNAME_MISMATCH: 'its certificate is for another host',
  [NO_NAMES]: 'its certificate names no host: it has a common name only, and no subject alternative name (RFC 9525)',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS on this port',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS on this port',
  ERR_SSL_HTTP_REQUEST: 'it does not speak TLS on this port',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: CLIENT_CERTIFICATE,
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: CLIENT_CERTIFICATE,
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: 'it asks for a client certificate that it knows',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: 'there is no TLS version or cipher that both sides accept',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'there is no TLS version that both sides accept',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'there is no TLS version that both sides accept',
  ERR_SSL_TLSV1_UNRECOGNIZED_NAME: 'it does not know this host name',
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: 'it speaks none of the protocols that the client offers',
  ERR_TLS_DH_PARAM_SIZE: 'its key exchange is too weak',
};

/** The same by OpenSSL's words, for what Node has no code for. */
const UNSPECIFIED_FAULTS: Readonly<Record<string, string>> = {
  'CA signature digest algorithm too weak': 'its certificate is signed with a digest that is too weak, such as SHA-1',
  'CA certificate key too weak': 'a certificate of its chain has a key that is too weak',
  'EE certificate key too weak': 'its certificate has a key that is too weak',
  'unhandled critical extension': 'its certificate has a critical extension that is not understood',
};

/** What people read about a connection that could not be made, by the system's code. */
const DIAL_FAULTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused the connection',
  ECONNRESET: 'reset the connection',
  EHOSTUNREACH: 'has no route to it',
  ENETUNREACH: 'is in a network that cannot be reached',
  EADDRNOTAVAIL: 'has an address that cannot be reached from here',
  EMFILE: 'could not be dialled: this process has no free file descriptors',
};

/** What people read about a name that was not found, by the resolver's code. */
const DNS_FAULTS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'has no address: the name does not exist',
  ENODATA: 'has no address',
  EAI_AGAIN: 'could not be looked up: the name service does not answer',
  EAI_NODATA: 'has no address',
};

/** A name that could not be turned into an address: `upstream_unreachable`. */
export function lookupError(host: string, cause: unknown): GatewayError {
  const code = codeOf(cause);
  return new GatewayError('upstream_unreachable', `${host} ${DNS_FAULTS[code] ?? `could not be looked up (${code || 'unknown fault'})`}.`, {
    cause,
  });
}

/** No TCP connection: `upstream_unreachable`. */
export function dialError(authority: Authority, cause: unknown): GatewayError {
  const code = codeOf(cause);
  const what = DIAL_FAULTS[code] ?? `could not be reached (${code || 'unknown fault'})`;
  return new GatewayError('upstream_unreachable', `${formatAuthority(authority)} ${what}.`, { cause });
}

/**
 * The handshake or the certificate failed: `upstream_tls`.
 * @param answered the other side had sent its part of the handshake before it gave up. A failure after that is no
 * matter of versions and ciphers: TLS 1.2 has no alert of its own for a missing client certificate (RFC 5246 §7.4.6).
 */
export function tlsError(authority: Authority, cause: unknown, answered = false): GatewayError {
  // OpenSSL 3.2, in Node 22 and later, has another name for what was an alert of SSLv3 already.
  const code = codeOf(cause).replace('ERR_SSL_SSL/TLS_', 'ERR_SSL_SSLV3_');
  const isRefused = answered && code === 'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE';
  const broken = code === 'ECONNRESET' || code === 'EPIPE' || code === 'ECONNABORTED';
  const known = isRefused ? CLIENT_CERTIFICATE : (TLS_FAULTS[code] ?? UNSPECIFIED_FAULTS[messageOf(cause)]);
  const what = known ?? (broken ? 'it broke the connection during the handshake' : `the handshake failed (${code || 'unknown fault'})`);
  const message = `No trusted TLS connection to ${formatAuthority(authority)}: ${what}.`;
  return what === CLIENT_CERTIFICATE
    ? new ClientCertificateWanted('upstream_tls', message, { cause })
    : new GatewayError('upstream_tls', message, { cause });
}

/** The upstream refused us for want of a client certificate (decision 3.11). */
export class ClientCertificateWanted extends GatewayError {}

/** Something took too long: `upstream_timeout`. `what` completes "host:port …". */
export function timeoutError(authority: Authority, what: string): GatewayError {
  return new GatewayError('upstream_timeout', `${formatAuthority(authority)} ${what}.`);
}

/** A streamed request body is shorter or longer than was said: `client_gone`. */
export function bodyLengthError(cause?: unknown): GatewayError {
  return new GatewayError('client_gone', 'The request body has not the length that was announced.', { cause });
}

/** An answer that is not HTTP/1.1: `upstream_protocol`. `what` completes "host:port …". */
export function answerError(authority: Authority, what: string, cause?: unknown): GatewayError {
  return protocolError(`${formatAuthority(authority)} ${what}.`, cause);
}

/** The connection ended, with or without a fault of its own. */
export function lostError(authority: Authority, phase: CallPhase, fault: unknown): GatewayError {
  const code = codeOf(fault);
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return tlsError(authority, fault);
  return closedError(formatAuthority(authority), phase, fault);
}

/** Any failure of a call, as the caller is told. Errors that are ours already pass unchanged. */
export function callError(authority: Authority, phase: CallPhase, error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  const name = formatAuthority(authority);
  const code = codeOf(error);
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return tlsError(authority, error);
  if (CLOSED.has(code)) return closedError(name, phase, error);
  return requestError(name, code, error);
}

/** The connection went away, by the system's code. */
const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'ETIMEDOUT']);
/** What Node refuses to send. */
const UNSENDABLE: ReadonlySet<string> = new Set(['ERR_INVALID_CHAR', 'ERR_INVALID_HTTP_TOKEN', 'ERR_UNESCAPED_CHARACTERS']);

/** Failures whose reason lies on our side of the connection. */
function requestError(name: string, code: string, error: unknown): GatewayError {
  if (UNSENDABLE.has(code)) {
    return new GatewayError('invalid_request', `The request cannot be sent to ${name}: ${messageOf(error)}.`, { cause: error });
  }
  return new GatewayError('upstream_unreachable', `The call to ${name} failed (${code || 'unknown fault'}).`, { cause: error });
}

function closedError(name: string, phase: CallPhase, cause: unknown): GatewayError {
  return phase === 'answering'
    ? brokenOff(name, cause)
    : new GatewayError('upstream_unreachable', `${name} closed the connection before it answered.`, { cause });
}

function brokenOff(name: string, cause: unknown): GatewayError {
  return new GatewayError('upstream_unreachable', `${name} broke the connection in the middle of its answer.`, { cause });
}

function protocolError(message: string, cause: unknown): GatewayError {
  return new GatewayError('upstream_protocol', message, { cause });
}

/** undici's codes for an answer that is not HTTP. */
const ANSWERS: Readonly<Record<string, string>> = {
  UND_ERR_HEADERS_OVERFLOW: TOO_LARGE,
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'sent a body that is too large',
};
/** The same, where all that undici gives is a message. */
const SOCKET_MESSAGES: Readonly<Record<string, string>> = {
  'bad upgrade': SWITCHED,
  'bad response': 'sent an answer that belongs to no request',
};

/** What the gateway says where undici says this; errors that are not undici's pass unchanged. */
export function undiciError(authority: Authority, phase: CallPhase, error: unknown): unknown {
  const code = codeOf(error);
  const what = ANSWERS[code] ?? (code === 'UND_ERR_SOCKET' ? SOCKET_MESSAGES[messageOf(error)] : undefined);
  if (what !== undefined) return answerError(authority, what, error);
  // undici 7 leaves the code of its parser's errors undefined; llhttp's reason stands in the message.
  if (code.startsWith('HPE_') || (error instanceof Error && error.name === 'HTTPParserError'))
    return messageOf(error).includes('EOF') ? lostError(authority, 'answering', error) : answerError(authority, NOT_HTTP, error);
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return lostError(authority, 'answering', error);
  if (code === 'UND_ERR_SOCKET') return lostError(authority, phase, error);
  if (code === 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') return bodyLengthError(error);
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED') {
    const message = `The request cannot be sent to ${formatAuthority(authority)}: ${messageOf(error)}.`;
    return new GatewayError('invalid_request', message, { cause: error });
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED')
    return new GatewayError('shutting_down', 'The gateway is draining.', { cause: error });
  return error;
}
