import { useLayoutEffect } from 'preact/hooks';

/** What a key does, by its name; `g c` is two keys, one after the other. */
export type Keys = Readonly<Record<string, () => void>>;

const PREFIX_MS = 1_500;
const layers: Keys[] = [];
let prefix: { readonly key: string; readonly until: number } | undefined;

/**
 * Gives keys a meaning as soon as a part of the page is shown, and no longer; of two meanings the one that came later
 * counts.
 */
export function useKeys(keys: Keys): void {
  useLayoutEffect(() => {
    layers.push(keys);
    return () => {
      layers.splice(layers.indexOf(keys), 1);
    };
  });
}

export function listenToKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTypedInto(event.target)) return;
    const { key } = event;
    // What has the focus is what Enter presses: a *Cancel* is never taken for the yes beside it.
    if (key === 'Enter' && isPressed(event.target)) return;
    const isSecond = prefix !== undefined && prefix.until > event.timeStamp;
    const name = isSecond ? `${prefix?.key} ${key}` : key;
    prefix = undefined;
    const does = layers.toReversed().find((keys) => name in keys)?.[name];
    if (does !== undefined) {
      event.preventDefault();
      does();
    } else if (layers.some((keys) => Object.keys(keys).some((known) => known.startsWith(`${key} `)))) {
      prefix = { key, until: event.timeStamp + PREFIX_MS };
    }
  });
}

/** Whether keys are text there; a dialog has keys of its own, wherever in the page somebody has clicked. */
function isTypedInto(target: EventTarget | null): boolean {
  if (document.querySelector('dialog[open]') !== null) return true;
  return target instanceof Element && target.closest('input, textarea, select, [contenteditable]') !== null;
}

function isPressed(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('button, a[href], summary') !== null;
}
