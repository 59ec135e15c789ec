import type { JSX } from 'preact';

/** A key of the keyboard, for who sees it; readers are told by `aria-keyshortcuts`. */
export function Key({ children }: { readonly children: string }): JSX.Element {
  return (
    <span class="key" aria-hidden="true">
      {children}
    </span>
  );
}
