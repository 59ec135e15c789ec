import { SELF_TEST_HOST } from '../base/lib/host.ts';
import type { Arrival, Authority, TriedCaller } from '../base/model/arrival.ts';

/** Whether an authority is the name behind which the gateway itself answers (decision 12.11). */
export function isSelfTest({ host, port }: Authority): boolean {
  return host === SELF_TEST_HOST && port === 443;
}

/**
 * Says that a client came to the proxy, by a tunnel also that it took the certificate, and whether its calls would be
 * let in: what it asks is not looked at, and goes nowhere.
 */
export function answerSelfTest({ head, reply }: Arrival, nodeId: string, tried: TriedCaller | undefined = head.tunnel?.tried): void {
  const caller = tried?.refused === true ? 'refused' : 'accepted';
  const said = { self_test: 'ok', node_id: nodeId, http_version: head.httpVersion, caller };
  const text = Buffer.from(`${JSON.stringify({ ...said, caller_problem: tried?.problem, caller_needs: tried?.needs })}\n`);
  const headers = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];
  if (head.method === 'HEAD') {
    reply.head(200, headers, text.length);
    reply.end();
  } else reply.sendWhole(200, headers, text);
}
