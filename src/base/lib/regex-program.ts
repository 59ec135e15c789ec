import type { RE2JS } from 're2js';
import { POLICY_BOUNDS } from '../model/work-bounds.ts';

/*
 * RE2 runs a pattern by an automaton of which it builds the states when a text first leads to them, and keeps up to eight megabytes of them for each pattern. Here they are few for each, and
 * few for all; and whether a pattern has few at all is found out when it is compiled, since by how many there are the time of a test can be told in advance.
 */

interface State {
  readonly isMatch: boolean;
  readonly nfaStates: readonly number[];
}

/** What is used of the automaton of `re2js`. */
interface States {
  stateBudget: number;
  memBudget: number;
  readonly classBounds: Int32Array;
  makeState(instructions: readonly number[], flags: number, ids: readonly number[]): State | null;
  step(from: State, characterClass: number, character: number, anchor: number): State | null;
}

/** What is used of a compiled pattern of `re2js`; its own types leave most of it out. */
export interface Engine {
  readonly prog: { readonly start: number };
  readonly dfa: States;
  lazyDFA: States | null;
  readonly onepass: object | null;
  readonly prefixComplete: boolean;
  readonly machinePool: unknown[];
}

const UNANCHORED = 0;
const END_OF_TEXT = -1;
/** A text, and with it a line, begins here. */
const AT_START = 5;
/** Programs above this have no small automaton that is worth looking for. */
const MAX_PROGRAM = 1_000;
/** Instructions that are looked at before a pattern counts as one without a small automaton. */
const MAX_WORK = 50_000;
/** What building them again costs, for each instruction that is looked at. */
const STEPS_OF_WORK = 2;

/** A compiled pattern with the states of its automaton. */
export class Program {
  readonly #compiled: RE2JS;
  readonly #engine: Engine;
  readonly #itself: WeakRef<Engine>;
  /** Whether a test may build states. */
  readonly #builds: boolean;
  readonly #steps: number;

  /** @param steps its instructions */
  constructor(compiled: RE2JS, steps: number) {
    this.#compiled = compiled;
    this.#engine = compiled.re2();
    this.#itself = new WeakRef(this.#engine);
    this.#builds = this.#engine.onepass === null && !this.#engine.prefixComplete;
    this.#steps = steps;
  }

  test(text: string): boolean {
    const engine = this.#engine;
    if (this.#builds && engine.lazyDFA === null) this.#begin();
    const found = this.#compiled.test(text);
    // What a slower way of it needed is not kept.
    if (engine.machinePool.length > 0) engine.machinePool.length = 0;
    return found;
  }

  /** Steps that building all states takes; undefined: they are more than are kept. Takes some milliseconds. */
  states(): number | undefined {
    if (!this.#builds) return this.#steps;
    if (this.#steps > MAX_PROGRAM) return undefined;
    const work = workOf(this.#engine);
    this.#engine.lazyDFA = null;
    return work;
  }

  /** Gives the states their bound, and lets go of those of the pattern that has had some for longest when too many have. */
  #begin(): void {
    bounded(this.#engine.dfa);
    kept.add(this.#itself);
    for (const oldest of kept) {
      if (kept.size <= POLICY_BOUNDS.automata.all) return;
      const other = oldest.deref();
      if (other !== undefined) other.lazyDFA = null;
      kept.delete(oldest);
    }
  }
}

/** Bytes for the states of one pattern, as `re2js` counts them. */
const BUDGET = POLICY_BOUNDS.automata.one;
/** Patterns that have states, in the order in which they got some. */
const kept = new Set<WeakRef<Engine>>();

function bounded(states: States): States {
  states.stateBudget = BUDGET;
  states.memBudget = BUDGET;
  return states;
}

/** Builds all states, for a look. */
function workOf(engine: Engine): number | undefined {
  const dfa = bounded(engine.dfa);
  const characters = [0, ...dfa.classBounds];
  const first = dfa.makeState([engine.prog.start], AT_START, []);
  if (first === null) return undefined;
  const seen = new Set([first]);
  let work = 0;
  for (const state of seen) {
    // A match ends the test.
    if (state.isMatch) continue;
    for (let at = 0; at <= characters.length; at++) {
      const next = dfa.step(state, at, characters[at] ?? END_OF_TEXT, UNANCHORED);
      work += state.nfaStates.length + 1;
      if (next === null || work > MAX_WORK) return undefined;
      seen.add(next);
    }
  }
  return work * STEPS_OF_WORK;
}
