import type { JSX } from 'preact';

/** The heading of a column: its words, and the classes of its cell. */
export type Column = string | readonly [words: string, classes: string];

/** In the place of classes: readers alone are told, since what stands below speaks for itself. */
export const UNSEEN_HEADING = 'seen-by-readers';

interface TableHeadFacts {
  /** What the table is of, for who does not see it. */
  readonly caption: string;
  /** In order; false: the column is not there. */
  readonly columns: readonly (Column | false)[];
}

/** What a table begins with: of what it is, and what its columns are. */
export function TableHead({ caption, columns }: TableHeadFacts): JSX.Element {
  return (
    <>
      <caption class="seen-by-readers">{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => {
            if (column === false) return null;
            const [words, classes = ''] = typeof column === 'string' ? [column] : column;
            const isUnseen = classes === UNSEEN_HEADING;
            return (
              <th scope="col" key={words} class={isUnseen || classes === '' ? undefined : classes}>
                {isUnseen ? <span class={UNSEEN_HEADING}>{words}</span> : words}
              </th>
            );
          })}
        </tr>
      </thead>
    </>
  );
}
