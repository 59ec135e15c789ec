import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** A dialog that stands above the page until it is answered or left with Escape. */
export function Sheet({
  title,
  close,
  children,
}: {
  readonly title: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="sheet" ref={dialog} onClose={close} aria-labelledby="sheet-title">
      <header>
        <h2 id="sheet-title">{title}</h2>
      </header>
      {children}
    </dialog>
  );
}
