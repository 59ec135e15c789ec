import { signal } from '@preact/signals';

/** How many requests wait for a person, as the page that asked last knows it; empty: none. */
export const waiting = signal('');

/** @param more whether there are more of them */
export function tellWaiting(found: number, more: boolean): void {
  waiting.value = found === 0 ? '' : `${found}${more ? '+' : ''}`;
}
