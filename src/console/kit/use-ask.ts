import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, type AskRefusal, ask, askedOrg, type Given, type OperationName, refusalFrom } from './ask.ts';

/** What is known of a question that a page asks. */
export interface Heard<T> {
  /** The last answer to this very question. */
  readonly answer: T | undefined;
  /** Why the last try gave none; an older answer may stand beside it. */
  readonly refusal: AskRefusal | undefined;
  /** Asks now. */
  readonly again: () => void;
}

const LONGEST_PAUSE_MS = 60_000;

/**
 * Asks, and asks again while somebody looks: nothing is asked for a tab that is hidden, and after a failure the pauses
 * double up to a minute.
 * @param given undefined: nothing is asked yet
 * @param everyMs pause between an answer and the next question; undefined: it is asked once
 */
export function useAsk<N extends OperationName>(name: N, given: Given<N> | undefined, everyMs?: number): Heard<Answer<N>> {
  const key = given === undefined ? undefined : JSON.stringify([name, given, askedOrg()]);
  const [known, setKnown] = useState<{ key?: string | undefined; answer?: Answer<N> | undefined; refusal?: AskRefusal | undefined }>({});
  const [round, setRound] = useState(0);
  const asked = useRef(given);
  asked.current = given;

  // The key stands for what is given.
  useEffect(() => {
    const question = asked.current;
    if (question === undefined) return;
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let isAsked = false;
    const next = (): void => {
      if (everyMs === undefined || ending.signal.aborted || document.hidden) return;
      timer = setTimeout(run, failures === 0 ? everyMs : Math.min(LONGEST_PAUSE_MS, everyMs * 2 ** failures));
    };
    const run = (): void => {
      timer = undefined;
      isAsked = true;
      ask(name, question, ending.signal).then(
        (answer) => {
          isAsked = false;
          failures = 0;
          if (ending.signal.aborted) return;
          setKnown({ key, answer });
          next();
        },
        (error: unknown) => {
          isAsked = false;
          if (ending.signal.aborted) return;
          failures += 1;
          const refusal = refusalFrom(error);
          setKnown((before) => ({ key, answer: before.key === key ? before.answer : undefined, refusal }));
          next();
        },
      );
    };
    const seen = (): void => {
      clearTimeout(timer);
      // One question at a time: what is under way asks again by itself.
      if (!document.hidden && !isAsked) run();
    };
    if (everyMs === undefined || !document.hidden) run();
    if (everyMs !== undefined) document.addEventListener('visibilitychange', seen);
    return () => {
      ending.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, everyMs, round]);

  const again = useCallback(() => setRound((before) => before + 1), []);
  const isOfKey = known.key === key;
  return { answer: isOfKey ? known.answer : undefined, refusal: isOfKey ? known.refusal : undefined, again };
}
