import { GatewayError } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/shorten.ts';
import { actionMethod } from '../../inbound/normalise/envelope-rules.ts';
import { readIdentity } from '../../inbound/normalise/identity.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { resolveTarget } from '../../inbound/normalise/target.ts';
import type { Exchange } from '../exchange.ts';
import { webSocketRefusal } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** What the head alone says: who calls, for whom, and where to. On the structured API all of that is in the body. */
export const arrive: Stage = {
  name: 'arrive',
  run(exchange, pipeline) {
    if (exchange.door === 'direct') return undefined;
    takeIdentity(exchange, pipeline);
    takeTunnel(exchange);
    if (exchange.door !== 'tunnel') takeTarget(exchange, pipeline);
    return undefined;
  },
};

function takeIdentity(exchange: Exchange, { settings, workloads }: Pipeline): void {
  const identity = readIdentity(exchange.head);
  exchange.identity = identity;
  exchange.orgId = identity.orgId ?? settings.orgId ?? 'default';
  exchange.workloadId = identity.workloadId ?? workloads.defaultWorkloadId;
  exchange.callerId = identity.callerId;
  exchange.attribution = identity.attribution;
}

/** The CONNECT's authority is known even when what came through it turns out to be misdirected. */
function takeTunnel(exchange: Exchange): void {
  const { tunnel, secure } = exchange.head;
  if (!tunnel) return;
  exchange.host = tunnel.authority.host;
  exchange.port = tunnel.authority.port;
  exchange.tls = secure || exchange.port !== 80;
}

function takeTarget(exchange: Exchange, { catalogue }: Pipeline): void {
  const { head } = exchange;
  // Upper case on every door, so that no rule about a method is passed by another spelling: h2 takes any.
  const method = actionMethod(head.method);
  if (method === undefined) throw new GatewayError('invalid_request', `${shorten(head.method)} is not a method that is forwarded.`);
  exchange.method = method;
  const target = resolveTarget(head, catalogue);
  exchange.host = target.host;
  exchange.port = target.port;
  exchange.tls = target.tls;
  exchange.path = target.path;
  exchange.provider = target.provider;
  if (target.provider) {
    const upgrade = exchange.reply?.switchProtocols !== undefined;
    exchange.operation = catalogue.operation(target.provider, method, pathOnly(target.path), upgrade);
    exchange.actionType = exchange.operation.actionType;
    if (exchange.door === 'proxied') admitWebSocket(exchange, upgrade);
  }
}

/** To an AI host only where its calls can be metered; elsewhere it is a call as any other, and relayed (decision 3.12). */
function admitWebSocket(exchange: Exchange, upgrade: boolean): void {
  exchange.opensSocket = upgrade && exchange.operation?.websocket === true && exchange.operation.dialect?.socket !== undefined;
  if (!exchange.opensSocket && /\bwebsocket\b/i.test(exchange.head.headers['upgrade'] ?? '')) throw webSocketRefusal();
}
