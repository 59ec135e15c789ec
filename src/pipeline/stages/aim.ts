import type { Operation, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/shorten.ts';
import { actionMethod } from '../../inbound/normalise/envelope-rules.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { resolveTarget } from '../../inbound/normalise/target.ts';
import { nowhere } from '../parts/known.ts';
import type { Arrived, Claims, OpenedSocket, SocketCall, Target } from '../parts/parts.ts';
import { webSocketRefusal } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';

/** Where a proxied request goes, as its head says it. */
export const aim = defineStage({
  name: 'aim',
  reads: ['arrival', 'claims'],
  makes: ['target'],
  run({ arrival, claims }) {
    const begun = throughTunnel(arrival);
    if (arrival.line === 'tunnel') return { target: { ...begun, isCall: false } };
    try {
      return { target: arrival.socketCall ? onSocket(begun, arrival.socketCall) : named(begun, arrival, claims) };
    } catch (error) {
      // The CONNECT's authority is known even when what came through it turns out to be misdirected.
      if (error instanceof GatewayError) return new EndedWith(error, { target: begun });
      throw error;
    }
  },
});

function throughTunnel({ head }: Arrived): Target {
  const { tunnel, secure, method } = head;
  const { host = '', port = 443 } = tunnel?.authority ?? {};
  return { ...nowhere(method), host, port, tls: tunnel === undefined || secure || port !== 80 };
}

function named(begun: Target, { head, reply }: Arrived, { catalogue }: Claims): Target {
  // Upper case on every door, so that no rule about a method is passed by another spelling: h2 takes any.
  const method = actionMethod(head.method);
  if (method === undefined) throw new GatewayError('invalid_request', `${shorten(head.method)} is not a method that is forwarded.`);
  const { host, port, tls, path, provider } = resolveTarget(head, catalogue);
  if (provider === undefined) return { ...begun, method, host, port, tls, path };
  const upgrade = reply?.switchProtocols !== undefined;
  const operation = catalogue.operation(provider, method, pathOnly(path), upgrade);
  const opensSocket = upgrade && isMetered(operation);
  // To an AI host only where its calls can be metered; elsewhere it is a call as any other, and relayed (decision 3.12).
  if (!opensSocket && /\bwebsocket\b/i.test(head.headers['upgrade'] ?? '')) throw webSocketRefusal();
  return { method, host, port, tls, path, provider, operation, actionType: operation.actionType, opensSocket, isCall: !opensSocket };
}

function isMetered({ websocket, dialect }: Operation): boolean {
  return websocket && dialect?.socket !== undefined;
}

/** The calls of a socket go where its handshake went. */
function onSocket(begun: Target, { opened, operation, settingsOnly }: SocketCall): Target {
  const { host, port, tls, path, provider } = placeOf(opened);
  const method = actionMethod(begun.method) ?? begun.method;
  return { ...begun, method, host, port, tls, path, provider, operation, actionType: operation.actionType, isCall: !settingsOnly };
}

function placeOf({ route }: OpenedSocket): Pick<Target, 'host' | 'port' | 'tls' | 'path'> & { readonly provider: Provider | undefined } {
  return route;
}
