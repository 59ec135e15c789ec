import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type AskRefusal, refusalFrom } from '../kit/ask.ts';
import { WORDS } from '../words.ts';
import { Sheet } from './sheet.tsx';
import { Problem } from './states.tsx';

export interface SureFacts {
  readonly title: string;
  /** What will happen. */
  readonly hint: string;
  /** On the button that does it. */
  readonly word: string;
  /** Whether something is lost by it. */
  readonly isDanger?: boolean;
  /** @param fields what was filled in */
  readonly does: (fields: FormData) => Promise<unknown>;
  readonly done: () => void;
  readonly close: () => void;
  /** Fields, where something is to be said. */
  readonly children?: ComponentChildren;
}

/** Asks once more before something is done, and says what that is. */
export function Sure({ title, hint, word, isDanger = true, does, done, close, children }: SureFacts): JSX.Element {
  const [refusal, setRefusal] = useState<AskRefusal>();
  const [isAsked, setAsked] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (isAsked) return;
    setAsked(true);
    try {
      await does(new FormData(event.currentTarget as HTMLFormElement));
      done();
    } catch (error) {
      setRefusal(refusalFrom(error));
      setAsked(false);
    }
  };
  return (
    <Sheet title={title} close={close}>
      <form class="form" onSubmit={submit}>
        {refusal && <Problem refusal={refusal} />}
        <p>{hint}</p>
        {children}
        <div class="actions">
          <button type="button" class="btn" onClick={close}>
            {WORDS.cancel}
          </button>
          <button type="submit" class={`btn primary${isDanger ? ' danger' : ''}`} disabled={isAsked}>
            {word}
          </button>
        </div>
      </form>
    </Sheet>
  );
}
