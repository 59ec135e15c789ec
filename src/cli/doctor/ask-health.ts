import { systemClock } from '../../base/lib/clock.ts';
import { codeOf, messageOf } from '../../base/lib/thrown.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { sendToGateway } from '../gateway-client.ts';

const TIMEOUT_MS = 5_000;

/** Who answers where the gateway should be. */
export type Health =
  /** `skewMs`: how far its clock is ahead of ours; undefined when it does not say. */
  | { readonly kind: 'gateway'; readonly nodeId: string; readonly status: string; readonly skewMs: number | undefined }
  | { readonly kind: 'stranger'; readonly says: string }
  | { readonly kind: 'nobody'; readonly reason: string };

/** Asks for `/healthz`. Never rejects. */
export async function askHealth(url: GatewayAddress | undefined): Promise<Health> {
  if (url === undefined) return { kind: 'nobody', reason: 'nothing says where it is' };
  try {
    const asked = { method: 'GET', headers: {}, timeoutMs: TIMEOUT_MS };
    const { status, text, date } = await sendToGateway(url, '/healthz', asked);
    return judge(text, status, date);
  } catch (error) {
    const reason = messageOf(error);
    return speaks(error) ? { kind: 'stranger', says: reason } : { kind: 'nobody', reason };
  }
}

/** Whether somebody takes connections there, though what comes is no answer. */
export function speaks(error: unknown): boolean {
  const code = error instanceof Error ? codeOf(error.cause) : '';
  return code.startsWith('HPE_') || ['ECONNRESET', 'EPROTO'].includes(code);
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
