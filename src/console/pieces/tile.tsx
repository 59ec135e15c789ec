import type { ComponentChildren, JSX } from 'preact';

export interface TileFacts {
  readonly name: string;
  readonly value: string;
  /** Beside the value: of what it is a part, or what is counted. */
  readonly unit?: string | undefined;
  /** What it is compared with. */
  readonly children?: ComponentChildren;
}

/** One number, with what it is compared with. */
export function Tile({ name, value, unit, children }: TileFacts): JSX.Element {
  return (
    <section class="card tile" aria-label={name}>
      <div class="k">{name}</div>
      <div class="v">
        {value} {unit !== undefined && <small>{unit}</small>}
      </div>
      <div class="d">{children}</div>
    </section>
  );
}
