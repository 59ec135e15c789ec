import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import type { ErrorCode } from '../../base/model/error-codes.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { sendToGateway } from '../gateway-client.ts';

const TIMEOUT_MS = 5_000;
/** What a port of a gateway with a certificate answers to plain HTTP (decision 12.1). */
const HTTPS_REQUIRED: ErrorCode = 'https_required';
const TLS_ALONE = 'a gateway is there, and its port speaks TLS alone: its address begins with https://';

/** What `/healthz` says of the control plane; members that it does not say are undefined. */
export interface ControlPlaneSaid {
  /** `connected`, `offline`, `unconfigured`. */
  readonly status: string | undefined;
  readonly posture: string | undefined;
  /** RFC 3339. */
  readonly offlineSince: string | undefined;
  /** RFC 3339. */
  readonly certificateExpiresAt: string | undefined;
}

/** Who answers where the gateway should be. */
export type Health =
  /** `skewMs`: how far its clock is ahead of ours; undefined when it does not say. */
  | {
      readonly kind: 'gateway';
      readonly nodeId: string;
      readonly status: string;
      readonly skewMs: number | undefined;
      readonly controlPlane: ControlPlaneSaid;
      /** What it says of itself. */
      readonly warnings: readonly HealthWarning[];
    }
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
  const cause = error instanceof Error ? error.cause : undefined;
  return (cause instanceof Error && cause.name === 'HTTPParserError') || ['ECONNRESET', 'EPROTO', 'UND_ERR_SOCKET'].includes(codeOf(cause));
}

function judge(text: string, status: number, date: string | undefined): Health {
  try {
    const health: unknown = JSON.parse(text);
    const { node_id: nodeId, status: said, error } = isJsonObject(health) ? health : {};
    if (isJsonObject(health) && typeof nodeId === 'string') {
      const at = Date.parse(date ?? '');
      const skewMs = Number.isNaN(at) ? undefined : at - systemClock.now();
      return {
        kind: 'gateway',
        nodeId,
        status: String(said),
        skewMs,
        controlPlane: controlPlaneIn(health),
        warnings: warningsIn(health),
      };
    }
    if (isJsonObject(error) && error['code'] === HTTPS_REQUIRED) return { kind: 'nobody', reason: TLS_ALONE };
  } catch {
    // No gateway speaks like that.
  }
  return { kind: 'stranger', says: `HTTP ${status} without a node_id` };
}

function controlPlaneIn(health: JsonObject): ControlPlaneSaid {
  const text = (name: string): string | undefined => {
    const value = health[name];
    return typeof value === 'string' ? value : undefined;
  };
  return {
    status: text('cp_status'),
    posture: text('cp_posture'),
    offlineSince: text('cp_offline_since'),
    certificateExpiresAt: text('cp_certificate_expires_at'),
  };
}

function warningsIn({ warnings }: JsonObject): readonly HealthWarning[] {
  const all = Array.isArray(warnings) ? warnings.filter(isJsonObject) : [];
  return all.map(({ code, message }) => ({ code: String(code), message: String(message) }));
}
