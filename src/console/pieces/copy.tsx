import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { WORDS } from '../words.ts';

/** Copies a text. Browsers give no clipboard to pages over plain HTTP: there a field is selected and copied. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement('textarea');
    field.value = text;
    field.setAttribute('aria-hidden', 'true');
    field.className = 'seen-by-readers';
    (document.querySelector('dialog[open]') ?? document.body).append(field);
    field.select();
    const isCopied = document.execCommand('copy');
    field.remove();
    return isCopied;
  }
}

export function CopyButton({ text, children }: { readonly text: () => string; readonly children: string }): JSX.Element {
  const [said, setSaid] = useState<string>();
  const copy = async (): Promise<void> => {
    setSaid((await copyText(text())) ? WORDS.copied : WORDS.notCopied);
    setTimeout(() => setSaid(undefined), 2_000);
  };
  return (
    <button type="button" class="btn" onClick={copy}>
      <span aria-live="polite">{said ?? children}</span>
    </button>
  );
}
