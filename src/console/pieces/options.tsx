import type { JSX } from 'preact';

/** The choices of a select, by value. @param before what stands before each word */
export function Options({ of, before = '' }: { readonly of: Readonly<Record<string, string>>; readonly before?: string }): JSX.Element {
  return (
    <>
      {Object.entries(of).map(([value, word]) => (
        <option key={value} value={value}>
          {before + word}
        </option>
      ))}
    </>
  );
}
