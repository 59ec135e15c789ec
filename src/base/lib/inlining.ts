import { setFlagsFromString } from 'node:v8';

/** Bytes of bytecode: of one function that is inlined, and of all that are inlined into one function. */
const LIMITS = { 'max-inlined-bytecode-size': 1_500, 'max-inlined-bytecode-size-cumulative': 3_000 };

/**
 * Lets V8 inline about three times as much as it does by itself: a call passes through many small functions, and costs
 * 6 % less CPU with 16 connections and 11 % less with one where more of these are inlined (ADR 12). What is optimised
 * from now on is compiled so; it is for a process that serves, since compiling takes longer.
 */
export function inlineMore(): void {
  for (const [name, bytes] of Object.entries(LIMITS)) setFlagsFromString(`--${name}=${bytes}`);
}
