import { SELF_TEST_HOST } from '../base/lib/self-test-host.ts';
import type { Arrival, Authority, Tunnel } from '../base/model/arrival.ts';

/** Whether an authority is the name behind which the gateway itself answers (decision 12.11). */
export function isSelfTest({ host, port }: Authority): boolean {
  return host === SELF_TEST_HOST && port === 443;
}

/** @param isRefused whether the same CONNECT to another host would be answered 407 */
export function selfTestTunnel(authority: Authority, isRefused: boolean): Tunnel {
  return isRefused ? { authority, refusedCaller: true } : { authority };
}

/** Says that a client came through the proxy and took the certificate, and whether its calls would be let in: what it asks is not looked at, and goes nowhere. */
export function answerSelfTest({ head, reply }: Arrival, nodeId: string): void {
  const caller = head.tunnel?.refusedCaller === true ? 'refused' : 'accepted';
  const text = Buffer.from(`${JSON.stringify({ self_test: 'ok', node_id: nodeId, http_version: head.httpVersion, caller })}\n`);
  const headers = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];
  if (head.method === 'HEAD') {
    reply.head(200, headers, text.length);
    reply.end();
  } else reply.sendWhole(200, headers, text);
}
