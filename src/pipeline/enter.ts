import type { GatewayError } from '../base/lib/gateway-error.ts';
import { withoutOwnTokens } from '../base/lib/own-tokens.ts';
import type { Arrival, ArrivalHead, Tunnel, WaitingClient } from '../base/model/arrival.ts';
import { readIdentity } from '../inbound/normalise/identity.ts';
import type { StopTold } from '../services/review/stops.ts';
import { begin } from './line/begin.ts';
import { type RunResult, runCall } from './line/run-call.ts';
import type { WalkingCall } from './line/walking-call.ts';
import type { LineGround } from './parts/call-services.ts';
import { deny, stopped } from './parts/refusal.ts';
import { suspended } from './parts/verdict-refusal.ts';
import { serveSocket } from './socket/serve.ts';

/** A request of transparent mode, of the plain forward proxy, or from inside an intercepted tunnel. */
export function runProxied(arrival: Arrival, pipeline: LineGround): Promise<RunResult> {
  const connectionType = arrival.head.door === 'origin' ? 'sdk_redirect' : 'connect_proxy';
  const call = begin(arrival, { line: 'proxied', connectionType }, pipeline);
  return arrival.reply.switchProtocols ? runHandshake(call, pipeline) : runCall(call, pipeline);
}

/** A request for a WebSocket, which begins when both sides have accepted it. */
async function runHandshake(call: WalkingCall, pipeline: LineGround): Promise<RunResult> {
  const result = await runCall(call, pipeline);
  const accepted = call.parts.acceptance?.accepted;
  if (accepted) serveSocket(call.parts, accepted, pipeline);
  return result;
}

/** `POST /v1/actions:execute`. */
export function runDirect(arrival: Arrival, pipeline: LineGround): Promise<RunResult> {
  return runCall(begin(arrival, { line: 'direct', connectionType: 'direct_api' }, pipeline), pipeline);
}

/**
 * A CONNECT that is decided by its host alone; its record is stored before this resolves (decision 7.3).
 * @param heldBy who has sent it
 * @returns `notOpened`: to be told when the tunnel that was let through could not be opened, where an approval was
 * spent on it (decision 9.1)
 */
export async function runTunnel(
  head: ArrivalHead,
  pipeline: LineGround,
  heldBy: WaitingClient,
): Promise<RunResult & { readonly notOpened?: () => void }> {
  const call = begin({ head }, { line: 'tunnel', connectionType: 'connect_proxy', heldBy }, pipeline);
  const result = await runCall(call, pipeline);
  const spent = call.parts.cleared?.by ?? [];
  return spent.length === 0 || call.refusal ? result : { ...result, notOpened: () => pipeline.approvals?.restore(spent) };
}

/**
 * Records that a passed tunnel is ended because its ClientHello names an AI host that its CONNECT did not (decisions
 * 3.9, 7.3).
 * @param serverName folded (decision 3.17)
 */
export function denyServerName(head: ArrivalHead, serverName: string, pipeline: LineGround): Promise<RunResult> {
  const imposed = deny(
    'sni_mismatch',
    `The ClientHello names ${withoutOwnTokens(serverName)}, the CONNECT ${head.tunnel?.authority.host ?? head.rawTarget}.`,
  );
  return runCall(begin({ head: legible(head) }, { line: 'tunnel', connectionType: 'connect_proxy', imposed }, pipeline), pipeline);
}

/**
 * Records that what passes undecided, a request or the CONNECT of a tunnel, leads to an address that is not public
 * (decisions 7.3, 8.5). A request is answered.
 * @param error `egress_denied`
 */
export function denyEgress(
  { head, ...from }: { head: ArrivalHead } & Partial<Arrival>,
  error: GatewayError,
  pipeline: LineGround,
): Promise<RunResult> {
  const line = from.reply ? 'proxied' : 'tunnel';
  const imposed = deny('egress_denied', error.message, { status: error.status, errorCode: 'egress_denied' });
  return runCall(begin({ head: legible(head), ...from }, { line, connectionType: 'connect_proxy', imposed }, pipeline), pipeline);
}

/**
 * Refuses what would pass undecided, a request or the CONNECT of a tunnel, because nobody of its org is served
 * (decision 4.6). It is on record; a request is answered.
 * @param orgId the org that is not active
 */
export function denySuspended(
  { head, ...from }: { head: ArrivalHead } & Partial<Arrival>,
  orgId: string,
  pipeline: LineGround,
): Promise<RunResult> {
  pipeline.controlPlane?.checkInSoon();
  const imposed = suspended({ surface: 'proxy', head, orgId }, pipeline.authenticator);
  const line = from.reply ? 'proxied' : 'tunnel';
  return runCall(begin({ head: legible(head), ...from }, { line, connectionType: 'connect_proxy', imposed }, pipeline), pipeline);
}

/** Refuses what would pass undecided, a request or the CONNECT of a tunnel, because a stop holds it; as above. */
export function denyStopped(
  { head, ...from }: { head: ArrivalHead } & Partial<Arrival>,
  stop: StopTold,
  pipeline: LineGround,
): Promise<RunResult> {
  const line = from.reply ? 'proxied' : 'tunnel';
  const imposed = stopped(stop);
  return runCall(begin({ head: legible(head), ...from }, { line, connectionType: 'connect_proxy', imposed }, pipeline), pipeline);
}

/**
 * A CONNECT that passes is not asked who sent it, so its identity may be malformed. It must be left out then, or the
 * denial had no record.
 */
function legible(head: ArrivalHead): ArrivalHead {
  try {
    readIdentity(head);
    return head;
  } catch {
    const headers = Object.fromEntries(Object.entries(head.headers).filter(([name]) => !name.startsWith('x-gw-')));
    return { ...head, headers, ...(head.tunnel ? { tunnel: bare(head.tunnel) } : {}) };
  }
}

function bare({ authority, callerIp }: Tunnel): Tunnel {
  return { authority, ...(callerIp === undefined ? {} : { callerIp }) };
}
