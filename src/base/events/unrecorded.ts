import { requestIdOf } from '../lib/ids.ts';
import { HIDDEN_TOKEN, holdsOwnToken, withoutOwnTokens } from '../lib/own-tokens.ts';
import type { TrafficClass } from '../model/action-request.ts';
import type { Arrival, ArrivalHead } from '../model/arrival.ts';

/**
 * A request that ended without a record: why, and what an operator needs to find out whose it was. Never a header, a
 * body or a query.
 */
export interface UnrecordedEvent {
  readonly code: string;
  /** `X-GW-Request-ID` of its answer. */
  readonly requestId: string;
  /** Trace that its caller named, when that was read. */
  readonly traceId?: string | undefined;
  /** For people. */
  readonly message: string;
  /** Address of the caller, without port. */
  readonly callerIp: string;
  readonly trafficClass: TrafficClass;
  /** The first line of the request as {@link requestLine} gives it; undefined when none could be read. */
  readonly request?: string | undefined;
}

const SHOWN = 200;

/**
 * Method and target of a request as they may stand in a log: without user, query and fragment, printable, cut at 200
 * characters.
 */
export function requestLine({ method, rawTarget, tunnel }: Pick<ArrivalHead, 'method' | 'rawTarget' | 'tunnel'>): string {
  const inside = tunnel && method !== 'CONNECT' ? ` in a tunnel to ${tunnel.authority.host}:${tunnel.authority.port}` : '';
  if (holdsOwnToken(rawTarget)) return `${shown(method)} ${HIDDEN_TOKEN}`;
  const told = method === 'CONNECT' ? rawTarget.slice(rawTarget.lastIndexOf('@') + 1) : withoutUser(rawTarget);
  return shown(`${method} ${told.slice(0, 2 * SHOWN).replace(/[?#].*$/s, '')}`) + inside;
}

/** A URL without its user, who may be longer than what is shown and have the password of a proxy or a site. */
function withoutUser(target: string): string {
  const start = /^(?:[a-z][a-z0-9+.-]*:)?\/\//i.exec(target)?.[0].length;
  if (start === undefined) return target;
  const length = target.slice(start).search(/[/?#]/);
  const end = length === -1 ? target.length : start + length;
  const user = target.lastIndexOf('@', end);
  return user < start ? target : target.slice(0, start) + target.slice(user + 1);
}

/** A text that a stranger chose, as it may stand in a log. */
export function shown(text: string): string {
  const printable = text.slice(0, SHOWN + 1).replace(/[^\x20-\x7e]/g, '?');
  return printable.length > SHOWN ? `${printable.slice(0, SHOWN)}…` : printable;
}

/** What is told of a request that ended with `error` and without a record. */
export function unrecordedEvent(
  error: { code: string; message: string },
  { head }: Pick<Arrival, 'head'>,
  {
    callerIp = head.tunnel?.callerIp ?? head.remoteAddress,
    requestId = requestIdOf(head.rawHeaders),
    traceId,
  }: Partial<Pick<UnrecordedEvent, 'callerIp' | 'requestId' | 'traceId'>> = {},
): UnrecordedEvent {
  return {
    requestId,
    traceId,
    code: error.code,
    message: withoutOwnTokens(error.message),
    callerIp,
    trafficClass: head.trafficClass,
    request: requestLine(head),
  };
}
