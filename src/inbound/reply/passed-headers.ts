import { KnownNames } from '../../base/lib/known-names.ts';

/** When to come again, whether to, and the id by which the provider knows the call. */
const PASSED: ReadonlySet<string> = new Set([
  ...['retry-after', 'retry-after-ms', 'x-ms-retry-after-ms', 'x-should-retry'],
  ...['x-request-id', 'request-id', 'x-amzn-requestid', 'apim-request-id', 'x-ms-request-id', 'x-goog-request-id'],
]);
/** What is left of the provider's limits, in the spellings that are in use. */
const LIMITS = /^(?:x-)?(?:[a-z0-9]+-)?rate-?limit(?:-|$)/;

const KNOWN = new KnownNames<boolean>();

/**
 * The header fields of a provider's answer by which a program decides what it does next; they stand on the answer of the structured API too, whose body says the rest
 * (decision 7.8).
 * @param headers flat name, value list
 */
export function passedHeaders(headers: readonly string[]): string[] {
  const passed: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (KNOWN.found.get(name) ?? KNOWN.learn(name, isPassed)) passed.push(name, headers[i + 1] ?? '');
  }
  return passed;
}

function isPassed(name: string): boolean {
  const lower = name.toLowerCase();
  return PASSED.has(lower) || LIMITS.test(lower);
}
