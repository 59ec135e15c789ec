/** Why something could not be delivered. */
export const FAILURE_REASONS = [
  'client_error',
  'auth_error',
  'gone',
  'rate_limited',
  'server_error',
  'timeout',
  'tls_error',
  'unreachable',
  'egress_denied',
  'not_configured',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];
