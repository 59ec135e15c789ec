import type { JSX } from 'preact';
import { go, hrefWith } from '../kit/place.ts';
import { WORDS } from '../words.ts';
import { Options } from './options.tsx';

export interface FilterFacts {
  /** The member of the address. */
  readonly name: string;
  readonly word: string;
  /** Empty: nothing is filtered by it. */
  readonly value: string;
  /** Values with their words; undefined: it is a text. */
  readonly choices?: Readonly<Record<string, string>> | undefined;
}

/** A filter of a list, that is in the address. */
export function FilterChip(facts: FilterFacts): JSX.Element {
  const { name, word, value, choices } = facts;
  return (
    <span class={value === '' ? 'chip' : 'chip on'}>
      <label for={`filter-${name}`}>{word}</label>{' '}
      {choices === undefined ? <TextOf {...facts} /> : <ChoiceOf {...facts} choices={choices} />}
      {value !== '' && (
        <button type="button" aria-label={WORDS.filters.remove(word)} onClick={() => setFilter(name, '')}>
          ✕
        </button>
      )}
    </span>
  );
}

function TextOf({ name, value }: FilterFacts): JSX.Element {
  return (
    <input
      id={`filter-${name}`}
      defaultValue={value}
      key={value}
      placeholder={WORDS.filters.any}
      spellcheck={false}
      autocomplete="off"
      onChange={(event) => setFilter(name, event.currentTarget.value.trim())}
    />
  );
}

function ChoiceOf({ name, value, choices }: FilterFacts & { readonly choices: Readonly<Record<string, string>> }): JSX.Element {
  return (
    <select id={`filter-${name}`} value={value} onChange={(event) => setFilter(name, event.currentTarget.value)}>
      <option value="">{WORDS.filters.any}</option>
      <Options of={choices} />
    </select>
  );
}

/** Another filter is another list: it begins at its beginning, and none of its rows is open. */
export function setFilter(name: string, value: string): void {
  // Where a comma stands before cents, somebody types one.
  const meant = name.endsWith('_usd') ? value.replace(/^(\d*),(\d+)$/, '$1.$2') : value;
  go(hrefWith({ [name]: meant === '' ? undefined : meant, ...OF_ANOTHER_LIST }));
}

/** What is taken out of an address when the list is another one. */
export const OF_ANOTHER_LIST: Readonly<Record<string, undefined>> = { cursor: undefined, call: undefined, entry: undefined, at: undefined };
