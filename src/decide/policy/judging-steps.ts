import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';

/*
 * What judging one call may take. Each test of a text or a list says how long it may take before it begins (a pattern: its instructions times the characters), so that rules and texts that
 * are long together are refused before they are tried. Outside of a verdict nothing is counted: whoever asks about one rule alone asks for as much as he likes.
 */

/** Of one verdict, what is left; everything else has no end. Judging waits for nothing, so there is never more than one. An array, since each other number that changes is an object; who
 * begins a verdict sets it to {@link MOST_STEPS} less what its rules take in any case, and back when it ends. */
export const left: Float64Array = new Float64Array([Number.POSITIVE_INFINITY]);

/** A call whose verdict would take more steps than one may. */
export class TooCostly extends Error {
  constructor() {
    super(`the rules would take more than ${POLICY_BOUNDS.verdict.one} steps`);
    this.name = 'TooCostly';
  }
}

/** Takes steps of the verdict that is being found. @throws TooCostly */
export function spend(steps: number): void {
  const rest = (left[0] ?? 0) - steps;
  left[0] = rest;
  if (rest < 0) throw new TooCostly();
}

/** Steps of one verdict. */
export const MOST_STEPS: number = POLICY_BOUNDS.verdict.one;
