import type { ComponentChildren, JSX } from 'preact';
import type { AskRefusal } from '../kit/ask.ts';
import { WORDS } from '../words.ts';

/** Stands where something will be; it shows after a moment, so that what is quick does not flicker. */
export function Skeleton({ rows = 8 }: { readonly rows?: number }): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label={WORDS.loading}>
      {Array.from({ length: rows }, (_, at) => (
        <i key={at} />
      ))}
    </div>
  );
}

/** An empty list is a beginning: it says what would fill it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** Why something is not there, and a way to try again. */
export function Problem({ refusal, again }: { readonly refusal: AskRefusal; readonly again?: () => void }): JSX.Element {
  return (
    <div class="problem" role="alert">
      <div>
        {refusal.message}
        {refusal.details.map(({ path, message }) => (
          <div class="note" key={path}>
            <code>{path}</code> {message}
          </div>
        ))}
      </div>
      {again && (
        <button type="button" class="btn" onClick={again}>
          {WORDS.again}
        </button>
      )}
    </div>
  );
}
