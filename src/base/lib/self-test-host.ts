/**
 * Behind this name the proxy answers by itself, so that a client's way and trust can be tried without a provider (decision 12.11). It can be nobody else's:
 * names below `.invalid` are never in the DNS (RFC 6761 §6.4), so that a client that does not use the proxy is told that there is no such host.
 */
export const SELF_TEST_HOST = 'self-test.ai-request-gateway.invalid';
