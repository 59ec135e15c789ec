import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost, formatAuthority } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';

/** `GW_UPSTREAM_PROXY`: the HTTP proxy that all upstream connections go through. */
export interface ParentProxy extends Authority {
  /** Value of Proxy-Authorization; undefined without user and password. Goes to the parent and to nobody else. */
  readonly authorization: string | undefined;
}

/** What the gateway says in each CONNECT to its parent. */
export interface ParentGreeting extends ParentProxy {
  /**
   * Our own entry of `Via`: by it a ring of proxies is noticed, since no request can be seen inside of a tunnel
   * (decision 3.13).
   */
  readonly via: string | undefined;
}

/** Of the parent's answer to CONNECT. */
const MAX_HEAD_BYTES = OUTBOUND_BOUNDS.parentProxy.one;
const HEAD_END = '\r\n\r\n';
const HEAD_START = 'HTTP/1.';
const STATUS_LINE = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |\r\n|$)/;

/** What people read about a parent that refuses, by its status. Its own words and its body are not passed on. */
const REFUSALS: Readonly<Record<number, string>> = {
  403: 'it does not allow this destination',
  407: 'it asks for a user and a password, or does not accept those of GW_UPSTREAM_PROXY',
  502: 'it could not reach the destination',
  503: 'it is not available',
  504: 'the destination did not answer it in time',
  508: 'it leads in a circle',
};

/** The parent said no: `upstream_unreachable`. */
export function parentRefusal(authority: Authority, status: number): GatewayError {
  const why = REFUSALS[status];
  const said = `The parent proxy refused the way to ${formatAuthority(authority)} with ${status}`;
  return new GatewayError('upstream_unreachable', `${said}${why === undefined ? '' : `: ${why}`}.`);
}

/**
 * A failure on the way to the parent, without the parent's address: that is the operator's own and no client's
 * business.
 */
export function parentFault(parent: Authority, error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  const named = [formatAuthority(parent), parent.host].find((name) => error.message.startsWith(`${name} `));
  if (named === undefined) return error;
  return new GatewayError(error.code, `The parent proxy${error.message.slice(named.length)}`, { cause: error.cause });
}

/**
 * The absolute form of a request's target (RFC 9112 §3.2.2), as a proxy takes it; empty for what is no path, so that
 * nothing sends it.
 */
export function absoluteForm(authority: Authority, path: string): string {
  if (!path.startsWith('/')) return '';
  const host = bracketHost(authority.host);
  return `http://${authority.port === 80 ? host : `${host}:${authority.port}`}${path}`;
}

/**
 * Asks the parent at the other end of `socket` for a tunnel (RFC 9110 §9.3.6).
 * @param limitMs for the whole answer's head
 * @returns the same socket, which is now the tunnel; what the destination has sent already is the first to be read
 * @throws GatewayError `upstream_unreachable`, `upstream_timeout`, `upstream_protocol`; the socket is closed then
 */
export function openThroughParent(
  socket: Socket,
  parent: ParentGreeting,
  authority: Authority,
  clock: Clock,
  limitMs: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const target = formatAuthority(authority);
    let held: Buffer = Buffer.alloc(0);

    function finish(error?: GatewayError): void {
      cancel();
      socket.off('readable', read);
      socket.off('close', gone);
      socket.off('end', gone);
      if (error !== undefined) {
        socket.destroy();
        reject(error);
        return;
      }
      if (held.length > 0) socket.unshift(held);
      resolve(socket);
    }

    function gone(): void {
      finish(new GatewayError('upstream_unreachable', `The parent proxy closed the connection before it opened the way to ${target}.`));
    }

    function read(): void {
      for (let chunk: unknown = socket.read(); chunk instanceof Uint8Array; chunk = socket.read()) held = Buffer.concat([held, chunk]);
      const answer = finalAnswer(held);
      if (answer === undefined) return;
      held = answer.rest;
      if (answer.status >= 200 && answer.status < 300) finish();
      else finish(answer.status < 200 ? notHttp() : parentRefusal(authority, answer.status));
    }

    const cancel = clock.after(limitMs, () => {
      finish(new GatewayError('upstream_timeout', `The parent proxy did not open the way to ${target} within ${limitMs / 1000} seconds.`));
    });
    socket.on('readable', read);
    socket.once('close', gone);
    socket.once('end', gone);
    const credentials = parent.authorization === undefined ? '' : `Proxy-Authorization: ${parent.authorization}\r\n`;
    const via = parent.via === undefined ? '' : `Via: ${parent.via}\r\n`;
    socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${credentials}${via}\r\n`, 'latin1');
    read();
  });
}

/**
 * The first answer in `held` that is not an interim one, and what follows its head; undefined: more has to come. Status
 * 0 is no HTTP.
 */
function finalAnswer(held: Buffer): { readonly status: number; readonly rest: Buffer } | undefined {
  for (let rest = held; ; ) {
    const end = rest.indexOf(HEAD_END);
    if (end === -1) {
      const isHead = HEAD_START.startsWith(rest.toString('latin1', 0, HEAD_START.length));
      return isHead && held.length <= MAX_HEAD_BYTES ? undefined : { status: 0, rest };
    }
    const status = Number(STATUS_LINE.exec(rest.toString('latin1', 0, end))?.[1] ?? 0);
    rest = rest.subarray(end + HEAD_END.length);
    // A switch of protocols is final, and nobody asked for it.
    if (status < 100 || status === 101 || status >= 200) return { status, rest };
  }
}

function notHttp(): GatewayError {
  return new GatewayError('upstream_protocol', 'The parent proxy sent an answer that is not valid HTTP/1.1.');
}
