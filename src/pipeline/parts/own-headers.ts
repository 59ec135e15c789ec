import type { Provider } from '../../base/catalogue/types.ts';
import { authHeaderNames } from '../../outbound/connectors/auth.ts';
import { filterRequestHeaders } from '../../outbound/net/header-filter.ts';

/**
 * Names of fields that say how, when or by what program a request is sent, and not what it asks for: another try by an
 * SDK, or the same request tomorrow, has others. Keys are left out by `authHeaderNames`, and what never leaves by the
 * outbound filter (decision 3.21).
 */
const OF_ONE_TRY: ReadonlySet<string> = new Set([
  // Network and connection.
  'accept-encoding',
  'forwarded',
  'via',
  'x-real-ip',
  'content-encoding',
  // Who sends it, beside the key.
  'cookie',
  'user-agent',
  'x-goog-api-client',
  'x-amz-user-agent',
  // Ids and dates of one try.
  'client-request-id',
  'date',
  'idempotency-key',
  'request-id',
  'x-amz-content-sha256',
  'x-amz-date',
  'x-amz-security-token',
  'x-attempt',
  'x-client-request-id',
  'x-correlation-id',
  'x-idempotency-key',
  'x-ms-client-request-id',
  'x-ms-date',
  'x-request-id',
  // Traces.
  'b3',
  'baggage',
  'elastic-apm-traceparent',
  'newrelic',
  'sentry-trace',
  'traceparent',
  'tracestate',
  'uber-trace-id',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
]);
const PREFIXES_OF_ONE_TRY = ['amz-sdk-', 'sec-', 'x-b3-', 'x-datadog-', 'x-forwarded-', 'x-retry-', 'x-stainless-'];

/**
 * The headers of a proxied call that are its caller's own words to the provider, by lower-case name, values of a
 * repeated field joined (decision 9.1).
 * @param flat name, value list as it came
 */
export function ownHeaders(flat: readonly string[], provider: Provider | undefined): Readonly<Record<string, string>> {
  const keys = authHeaderNames(provider);
  const own = new Map<string, string>();
  const left = filterRequestHeaders(flat);
  for (let at = 0; at + 1 < left.length; at += 2) {
    const name = (left[at] ?? '').toLowerCase();
    if (keys.has(name) || OF_ONE_TRY.has(name) || PREFIXES_OF_ONE_TRY.some((prefix) => name.startsWith(prefix))) continue;
    const before = own.get(name);
    own.set(name, before === undefined ? (left[at + 1] ?? '') : `${before}, ${left[at + 1] ?? ''}`);
  }
  return Object.fromEntries(own);
}
