import type { JSX } from 'preact';
import { hrefWith } from '../kit/place.ts';
import { WORDS } from '../words.ts';

/** What leads to the rest of a list; nothing where there is no more. */
export function NextPage({ of }: { readonly of: { readonly has_more: boolean; readonly next_cursor: string | null } }): JSX.Element | null {
  if (!of.has_more) return null;
  return (
    <div class="pages-line">
      <span class="right" />
      <a class="btn" href={hrefWith({ cursor: of.next_cursor ?? undefined })}>
        {WORDS.older}
      </a>
    </div>
  );
}
