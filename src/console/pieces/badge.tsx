import type { ComponentChildren, JSX } from 'preact';

export interface BadgeFacts {
  /** A class of the style, such as `allow` or `wait`. */
  readonly tone: string;
  readonly sign: string;
  readonly children: ComponentChildren;
}

/** A word with its colour and its sign, so that nothing is told by colour alone. */
export function Badge({ tone, sign, children }: BadgeFacts): JSX.Element {
  return (
    <span class={`badge ${tone}`}>
      <i aria-hidden="true">{sign}</i>
      {children}
    </span>
  );
}
