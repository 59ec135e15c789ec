/*
 * Fuzzing: what hostile bytes do to each parser of ours. A target knows how to feed one parser and which rules hold
 * whatever the bytes are; the corpus below test/cases/fuzz has a folder per target; the mutator makes new inputs out of
 * it. `corpus.test.ts` replays the corpus with every test run, the proof `npm run proof -- --only fuzz` makes a million
 * inputs per parser. Nothing here is random but by a seed.
 */
import { GatewayError } from '../../src/base/lib/gateway-error.ts';

/** One parser under attack. */
export interface FuzzTarget {
  /** Names the folder of its corpus. */
  readonly name: string;
  /** Inputs of a full run. */
  readonly inputs: number;
  /** One input takes most of a millisecond. */
  readonly dear?: true;
  /**
   * An input of at most 64 KiB that takes longer, in milliseconds, is a stall. Default 250; more for what strangers
   * cannot send.
   */
  readonly stallMs?: number;
  /** Leading lines that choose a reader (a dialect, a Content-Type) and are seldom mutated. */
  readonly headLines: number;
  /** Pieces of the format, put in here and there. */
  readonly dictionary: readonly string[];
  /**
   * Feeds one input.
   * @returns a short name of what became of it; an input with a new one is worth mutating further
   * @throws Error for anything that must not happen, whatever the input
   */
  run(input: Buffer): string | Promise<string>;
}

export type Outcome<T> = { readonly value: T; readonly code: undefined } | { readonly value: undefined; readonly code: string };

/** Characters of the body that answers a refused input. */
const MAX_ANSWER = 65_536;

/**
 * The result of a call, or the code of its refusal.
 * @throws whatever is no refusal, and a refusal with a code that the parser must not use
 */
export function outcomeOf<T>(codes: readonly string[], call: () => T): Outcome<T> {
  try {
    return { value: call(), code: undefined };
  } catch (error) {
    if (!(error instanceof GatewayError && codes.includes(error.code))) throw error;
    must(JSON.stringify(error.toBody()).length < MAX_ANSWER, 'what is said of an input is short');
    return { value: undefined, code: error.code };
  }
}

/** @throws Error when a rule does not hold */
export function must(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new Error(rule);
}

/** The first lines, and everything behind them. */
export function splitHead(input: Buffer, lines: number): { readonly head: readonly string[]; readonly rest: Buffer } {
  const head: string[] = [];
  let at = 0;
  for (let i = 0; i < lines; i++) {
    const end = input.indexOf(0x0a, at);
    head.push(input.toString('latin1', at, end === -1 ? input.length : end));
    at = end === -1 ? input.length : end + 1;
  }
  return { head, rest: input.subarray(at) };
}

/** Lines `Name: value` as the flat list that an HTTP parser makes of them; other lines are left out. */
export function fieldsOf(lines: readonly string[]): string[] {
  const fields: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.push(line.slice(0, colon), line.slice(colon + 1).replace(/^[ \t]|[ \t\r]$/g, ''));
  }
  return fields;
}

/** Lower-case names; what is repeated is joined by comma. */
export function joinedFields(fields: readonly string[]): Record<string, string> {
  const joined: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = (fields[i] ?? '').toLowerCase();
    const before = Object.hasOwn(joined, name) ? `${joined[name]}, ` : '';
    Object.defineProperty(joined, name, {
      value: before + (fields[i + 1] ?? ''),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return joined;
}

/** A number that the input alone determines (FNV-1a). */
export function hashOf(input: Uint8Array): number {
  let hash = 0x811c9dc5;
  const step = Math.max(1, input.length >> 7);
  for (let i = 0; i < input.length; i += step) hash = Math.imul(hash ^ (input[i] ?? 0), 0x01000193);
  return (hash ^ input.length) >>> 0;
}

/** The input in pieces, cut where its hash says. */
export function piecesOf(input: Buffer): Buffer[] {
  let state = hashOf(input) | 1;
  const longest = state % 3 === 0 ? 3 : state % 3 === 1 ? 64 : 4096;
  const pieces: Buffer[] = [];
  for (let at = 0; at < input.length; ) {
    state = Math.imul(state, 0x5bd1e995) ^ (state >>> 13);
    // Of a long input only the beginning is cut into tiny pieces.
    const length = 1 + ((state >>> 0) % (pieces.length > 500 ? 4096 : longest));
    pieces.push(input.subarray(at, at + length));
    at += length;
  }
  return pieces;
}
