import { randomFillSync } from 'node:crypto';

/** What a `traceparent` says. */
export interface TraceParent {
  /** 32 lower-case hex digits. */
  readonly traceId: string;
  /** 16 lower-case hex digits. */
  readonly spanId: string;
  readonly flags: number;
}

export const SAMPLED = 0x01;
/** The trace id is random; passed on as it came (Trace Context level 2). */
export const RANDOM = 0x02;

/** Of version 00; of later ones this much is read. */
const LENGTH = 55;
const PARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/**
 * Reads a `traceparent` (W3C Trace Context, "traceparent Header Field Values").
 * @returns undefined for one that is not valid; then the caller has none
 */
export function parseTraceParent(text: string): TraceParent | undefined {
  if (text.length < LENGTH || (text.length > LENGTH && text.startsWith('00'))) return undefined;
  const [, traceId, spanId, flags] = PARENT.exec(text) ?? [];
  return traceId === undefined || spanId === undefined ? undefined : { traceId, spanId, flags: Number.parseInt(flags ?? '', 16) };
}

/** In version 00. */
export function traceParentText({ traceId, spanId, flags }: TraceParent): string {
  return `00-${traceId}-${spanId}-${flags < 16 ? '0' : ''}${flags.toString(16)}`;
}

const MAX_MEMBERS = 32;
const MAX_STATE = 4_096;
const MEMBER =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** Whether it is a `tracestate` that may be passed on (W3C Trace Context, "tracestate Header Field Values"). */
export function isTraceState(text: string): boolean {
  if (text.length > MAX_STATE) return false;
  const members = text
    .split(',')
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((member) => member !== '');
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  return (
    members.length > 0 && members.length <= MAX_MEMBERS && keys.size === members.length && members.every((member) => MEMBER.test(member))
  );
}

/* Ids are cut from a supply of random digits: one call of the generator for each would cost more than the ids. */
const SUPPLY = Buffer.alloc(2_048);
let digits = '';
let at = 0;

/** So many lower-case hex digits, not all of them 0. */
function randomDigits(count: 16 | 32): string {
  if (at + count > digits.length) {
    digits = randomFillSync(SUPPLY).toString('hex');
    at = 0;
  }
  const id = digits.slice(at, at + count);
  at += count;
  return /[1-9a-f]/.test(id) ? id : randomDigits(count);
}

export const newTraceId = (): string => randomDigits(32);
export const newSpanId = (): string => randomDigits(16);
