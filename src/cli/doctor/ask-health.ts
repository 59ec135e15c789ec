import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { systemClock } from '../../base/lib/clock.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 65_536;

/** Who answers where the gateway should be. */
export type Health =
  /** `skewMs`: how far its clock is ahead of ours; undefined when it does not say. */
  | { readonly kind: 'gateway'; readonly nodeId: string; readonly status: string; readonly skewMs: number | undefined }
  | { readonly kind: 'stranger'; readonly says: string }
  | { readonly kind: 'nobody'; readonly reason: string };

/** Asks for `/healthz`. Never rejects. */
export function askHealth(url: URL | undefined): Promise<Health> {
  if (url === undefined) return Promise.resolve({ kind: 'nobody', reason: 'nothing says where it is' });
  return new Promise((resolve) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const call = send(new URL('/healthz', url), { timeout: TIMEOUT_MS, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
        if (text.length > MAX_BYTES) call.destroy(new Error('the answer is too long'));
      });
      answer.on('end', () => resolve(judge(text, answer.statusCode ?? 0, answer.headers.date)));
    });
    call.on('timeout', () => call.destroy(Object.assign(new Error(`no answer in ${TIMEOUT_MS / 1_000} s`), { code: 'ETIMEDOUT' })));
    call.on('error', (error: NodeJS.ErrnoException) => {
      // Whoever takes a connection and speaks no HTTP, or not at all, is there.
      const isThere = error.code?.startsWith('HPE_') === true || ['ECONNRESET', 'ETIMEDOUT', 'EPROTO'].includes(error.code ?? '');
      resolve(isThere ? { kind: 'stranger', says: error.message } : { kind: 'nobody', reason: error.message });
    });
    call.end();
  });
}

function judge(text: string, status: number, date: string | undefined): Health {
  try {
    const { node_id: nodeId, status: said } = JSON.parse(text) as { node_id?: unknown; status?: unknown };
    if (typeof nodeId === 'string') {
      const at = Date.parse(date ?? '');
      const skewMs = Number.isNaN(at) ? undefined : at - systemClock.now();
      return { kind: 'gateway', nodeId, status: String(said), skewMs };
    }
  } catch {
    // No gateway speaks like that.
  }
  return { kind: 'stranger', says: `HTTP ${status} without a node_id` };
}
