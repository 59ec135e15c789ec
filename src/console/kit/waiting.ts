import { signal } from '@preact/signals';

/** How many requests wait for a person, as the page that asked last knows it. */
export const waiting = signal(0);
