import type { Dialect, Provider } from '../../base/catalogue/types.ts';

export interface DirectHeadersQuestion {
  readonly provider: Provider | undefined;
  /** Of the operation. */
  readonly dialect: Dialect | undefined;
  /** A JSON body is sent. */
  readonly hasBody: boolean;
  /** Of the call (specification, "Idempotency"). */
  readonly idempotencyKey: string | undefined;
  /** Lower-case names of the headers that the caller set. */
  readonly callerSet: (name: string) => boolean;
}

/**
 * Headers that a call of the structured API needs beyond the caller's own, as a flat name, value list: the type of its body, and the version header that
 * its wire format or its provider cannot do without. What the caller set stands.
 */
export function directHeaders(question: DirectHeadersQuestion): readonly string[] {
  const { provider, dialect, hasBody, idempotencyKey, callerSet } = question;
  const headers: string[] = [];
  if (hasBody && !callerSet('content-type')) headers.push('content-type', 'application/json');
  const version = dialect?.versionHeader ?? provider?.versionHeader;
  if (version !== undefined && !callerSet(version.name.toLowerCase())) headers.push(version.name, version.fallback);
  const keyHeader = provider?.idempotencyHeader;
  if (keyHeader !== undefined && idempotencyKey !== undefined && !callerSet(keyHeader.toLowerCase()))
    headers.push(keyHeader, idempotencyKey);
  return headers;
}
