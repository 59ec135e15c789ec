import type { RE2JS } from 're2js';
import { POLICY_BOUNDS } from '../model/work-bounds.ts';

/*
 * RE2 runs a pattern by an automaton of which it builds the states when a text first leads to them, and keeps up to
 * eight megabytes of them for each pattern. Here they are few for each, and few for all. A text that leads to more is
 * tested by all instructions for each character; which texts do depends on nothing but the pattern and the text, since
 * by that the time of a test is told.
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
  /** Called when the bytes for states are taken, to begin again with none. */
  resetCache: (current: State) => State | null;
  clearCache(): void;
  makeState(instructions: readonly number[], flags: number, ids: readonly number[]): State | null;
  step(from: State, characterClass: number, character: number, anchor: number): State | null;
  /** Null: it takes more states than it may have. */
  match(input: object, from: number, anchor: number): boolean | null;
}

/** What is used of a compiled pattern of `re2js`; its own types leave most of it out. */
interface Engine {
  readonly prog: { readonly start: number };
  /** {@link lazyDFA}, which is made when there is none. */
  readonly dfa: States;
  lazyDFA: Pick<States, 'match'> | null;
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

/** Bytes for the states of one pattern, as `re2js` counts them, and what an automaton takes beside them. */
const BUDGET = POLICY_BOUNDS.automata.one;
const AROUND_STATES = 2_048;
/**
 * What `re2js` counts for a state with its table, for each instruction in it, and for each class of characters in its
 * table.
 */
const STATE_BYTES = 198;
const ELEMENT_BYTES = 8;

/** What is done before a text is tested by all instructions for each character; may throw. */
type BeforeSlow = () => void;

const NOTHING: BeforeSlow = () => undefined;

/** A compiled pattern with the states of its automaton. */
export class Program {
  readonly #compiled: RE2JS;
  readonly #engine: Engine;
  readonly #itself: WeakRef<Program>;
  /** Whether a test may build states. */
  readonly #builds: boolean;
  readonly #steps: number;
  #states: States | undefined;
  #building: Building | undefined;
  #beforeSlow = NOTHING;

  /** @param steps its instructions */
  constructor(compiled: RE2JS, steps: number) {
    this.#compiled = compiled;
    this.#engine = compiled.re2();
    this.#itself = new WeakRef<Program>(this);
    this.#builds = this.#engine.onepass === null && !this.#engine.prefixComplete;
    this.#steps = steps;
  }

  /** @param beforeSlow called when the text leads to more states than are kept. Throws what it throws */
  test(text: string, beforeSlow: BeforeSlow = NOTHING): boolean {
    if (!this.#builds) return this.#compiled.test(text);
    const states = this.#states ?? this.#begin();
    this.#beforeSlow = beforeSlow;
    try {
      return this.#compiled.test(text);
    } finally {
      this.#beforeSlow = NOTHING;
      // What a slower way of it needed is not kept.
      if (this.#engine.machinePool.length > 0) this.#engine.machinePool.length = 0;
      keep(this.#itself, BUDGET - states.memBudget + AROUND_STATES);
    }
  }

  /** What building its states takes at most. Takes some milliseconds when it is first asked. */
  building(): Building {
    this.#building ??= this.#lookAtBuilding();
    return this.#building;
  }

  /** Lets go of its states. */
  forget(): void {
    this.#states = undefined;
    this.#engine.lazyDFA = null;
  }

  #lookAtBuilding(): Building {
    if (!this.#builds) return { steps: this.#steps, isFew: true };
    this.forget();
    const states = bounded(this.#engine.dfa);
    const all = this.#steps > MAX_PROGRAM ? undefined : workOf(states, this.#engine.prog.start);
    this.forget();
    return all === undefined ? { steps: mostWork(this.#steps, states.classBounds.length + 2), isFew: false } : { steps: all, isFew: true };
  }

  /** Gives it states of its own, none as yet. */
  #begin(): States {
    const states = bounded(this.#engine.dfa);
    this.#states = states;
    this.#engine.lazyDFA = {
      match: (input, from, anchor) => {
        const found = states.match(input, from, anchor);
        if (found !== null) return found;
        // Perhaps only since texts before this one have left theirs.
        states.clearCache();
        const again = states.match(input, from, anchor);
        if (again === null) this.#beforeSlow();
        return again;
      },
    };
    return states;
  }
}

/** What building states takes. */
export interface Building {
  /** Steps of building all that are kept. */
  readonly steps: number;
  /** Whether these are all that there are: no text leads to more. */
  readonly isFew: boolean;
}

/** Patterns that have states, in the order in which they got some, and their bytes. */
const kept = new Map<WeakRef<Program>, number>();
let keptBytes = 0;

/**
 * Notes the bytes of a pattern, and lets go of the states of those that have had some for longest when all have too
 * many.
 */
function keep(program: WeakRef<Program>, bytes: number): void {
  const before = kept.get(program) ?? 0;
  if (before === bytes) return;
  kept.set(program, bytes);
  keptBytes += bytes - before;
  if (keptBytes <= POLICY_BOUNDS.automata.all) return;
  for (const [oldest, size] of kept) {
    kept.delete(oldest);
    keptBytes -= size;
    oldest.deref()?.forget();
    if (keptBytes <= POLICY_BOUNDS.automata.all) return;
  }
}

function bounded(states: States): States {
  states.stateBudget = BUDGET;
  states.memBudget = BUDGET;
  states.resetCache = () => null;
  return states;
}

/** Builds all states, for a look. @returns undefined when they are more than are kept */
function workOf(states: States, start: number): number | undefined {
  const characters = [0, ...states.classBounds];
  const first = states.makeState([start], AT_START, []);
  if (first === null) return undefined;
  const seen = new Set([first]);
  let work = 0;
  for (const state of seen) {
    // A match ends the test.
    if (state.isMatch) continue;
    for (let at = 0; at <= characters.length; at++) {
      const next = states.step(state, at, characters[at] ?? END_OF_TEXT, UNANCHORED);
      work += state.nfaStates.length + 1;
      if (next === null || work > MAX_WORK) return undefined;
      seen.add(next);
    }
  }
  return work * STEPS_OF_WORK;
}

/**
 * Of states that fill their bytes, each with all instructions: they are built once over those of texts before, and once
 * again from none.
 */
function mostWork(instructions: number, classes: number): number {
  const most = Math.ceil(BUDGET / (STATE_BYTES + ELEMENT_BYTES * (instructions + classes)));
  return 2 * most * classes * (instructions + 1) * STEPS_OF_WORK;
}
