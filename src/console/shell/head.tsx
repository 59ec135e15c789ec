import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { refusalFrom } from '../kit/ask.ts';
import { useKeys } from '../kit/keyboard.ts';
import { go, hrefOf } from '../kit/place.ts';
import { may, signOut } from '../kit/session.ts';
import { zone } from '../kit/shown-values.ts';
import { Key } from '../pieces/key.tsx';
import { WORDS } from '../words.ts';
import { OrgField } from './org-field.tsx';
import { StopSheet } from './stop-sheet.tsx';

const RECORD_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const RECORD_HASH = /^[0-9a-f]{64}$/i;

export function Head(): JSX.Element {
  const [stops, setStops] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<string>();
  useKeys({ '/': () => field.current?.focus() });
  const leave = (): void => {
    signOut().catch((error: unknown) => setProblem(WORDS.signIn.notOut(refusalFrom(error).message)));
  };
  const find = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? '';
    if (text !== '') go(foundAt(text));
    field.current?.blur();
  };
  return (
    <header class="head">
      <search>
        <form class="search" onSubmit={find}>
          <span aria-hidden="true">⌕</span>
          <input ref={field} type="search" aria-label={WORDS.head.searchLabel} placeholder={WORDS.head.search} spellcheck={false} />
          <span class="hide-s">
            <Key>/</Key>
          </span>
        </form>
      </search>
      <span class="sec hide-m hide-s" title={WORDS.head.zone(zone())}>
        {zone()}
      </span>
      <OrgField />
      {problem !== undefined && (
        <span class="note" role="alert">
          {problem}
        </span>
      )}
      <button type="button" class="btn quiet" onClick={leave}>
        {WORDS.signIn.out}
      </button>
      {may('write') && (
        <button type="button" class="btn danger" onClick={() => setStops(true)}>
          {WORDS.stop.button}
        </button>
      )}
      {stops && <StopSheet close={() => setStops(false)} />}
    </header>
  );
}

/** A record by its id or hash; any other text is a part of a model's name, and the empty list offers what else it may be. */
function foundAt(text: string): string {
  if (RECORD_ID.test(text) || RECORD_HASH.test(text)) return hrefOf('calls', { call: text.toLowerCase(), range: '30d' });
  return hrefOf('calls', { model: text });
}
