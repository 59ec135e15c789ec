/** Those that wait for their turn, the first one first. */
const waiting: (() => void)[] = [];

/**
 * Resolves in a later turn of the event loop. Of all that look through much, one goes on in each turn, so that many at
 * once hold up everybody else no longer than one alone: between two pages, or two slices of rows.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(goOn);
  });
}

function goOn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(goOn);
}
