import type { JSX } from 'preact';
import { hrefWith } from '../kit/place.ts';

interface PresetFacts {
  /** The member of the address that says which one is chosen. */
  readonly name: string;
  readonly chosen: string;
  /** Each choice with its word. */
  readonly of: Readonly<Record<string, string>>;
}

/** Ways to look at a list, of which one is chosen: another one begins at its beginning. */
export function PresetChips({ name, chosen, of }: PresetFacts): JSX.Element {
  return (
    <div class="chips">
      {Object.entries(of).map(([choice, word]) => (
        <a
          class={choice === chosen ? 'chip on' : 'chip'}
          key={choice}
          href={hrefWith({ [name]: choice, cursor: undefined })}
          aria-current={choice === chosen ? 'true' : undefined}
        >
          {word}
        </a>
      ))}
    </div>
  );
}
