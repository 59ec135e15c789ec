import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { AskRefusal, sessionOver } from '../kit/ask.ts';
import { notSignedIn, signIn } from '../kit/session.ts';
import { WORDS } from '../words.ts';
import { Brand } from './brand.tsx';

export function SignIn(): JSX.Element {
  const [refusal, setRefusal] = useState(notSignedIn.value?.message);
  const [isAsked, setAsked] = useState(false);
  const W = WORDS.signIn;
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const secret = new FormData(event.currentTarget as HTMLFormElement).get('secret');
    setAsked(true);
    try {
      await signIn(String(secret).trim());
    } catch (error) {
      setRefusal(error instanceof AskRefusal ? error.message : String(error));
      setAsked(false);
    }
  };
  return (
    <main class="sign-in">
      <div class="card">
        <Brand />
        <form class="form" onSubmit={submit}>
          <h1>{W.title}</h1>
          {refusal === undefined && sessionOver.value > 0 && (
            <div class="note" role="status">
              {W.over}
            </div>
          )}
          <label>
            {W.secret}
            <input class="field" type="password" name="secret" required autocomplete="off" spellcheck={false} aria-describedby="hint" />
          </label>
          <div class="note" id="hint">
            {W.hint}
          </div>
          {refusal !== undefined && (
            <div class="problem" role="alert">
              {refusal}
            </div>
          )}
          <button class="btn primary" type="submit" disabled={isAsked}>
            {W.button}
          </button>
          <div class="note">
            {W.byCommand}
            <pre class="command">gw console</pre>
          </div>
        </form>
      </div>
    </main>
  );
}
