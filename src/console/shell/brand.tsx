import type { JSX } from 'preact';
import { WORDS } from '../words.ts';

export function Brand({ version }: { readonly version?: string | undefined }): JSX.Element {
  return (
    <div class="brand">
      <svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true">
        <path d="M3 17V9a7 7 0 0 1 14 0v8" />
        <path d="M10 9v4" />
        <path d="M3 17h3M14 17h3" />
      </svg>
      {WORDS.product}
      {version !== undefined && <small>{version}</small>}
    </div>
  );
}
