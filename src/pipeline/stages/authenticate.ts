import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Exchange } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

/**
 * A workload that has a token must present it (decision 4.5); with `GW_PROXY_AUTH=required` every proxied caller must. How a missing token is
 * answered depends on the door: a proxy asks with 407, the gateway's own port with 401, and inside a tunnel the answer is a recorded denial.
 */
export const authenticate: Stage = {
  name: 'authenticate',
  run(exchange, pipeline) {
    const { workloads, settings } = pipeline;
    refuseApiKey(exchange, pipeline);
    const fixed = exchange.head.tunnel?.fixedWorkload;
    if (fixed !== undefined) {
      if (fixed === exchange.workloadId) return undefined;
      return deny('workload_mismatch', `This tunnel was opened for workload ${fixed}; requests inside it cannot name another.`);
    }
    const presented = presentedToken(exchange);
    if (workloads.hasToken(exchange.workloadId)) {
      if (presented !== undefined && workloads.tokenMatches(exchange.workloadId, presented)) return undefined;
      return challenge(exchange, pipeline, presented);
    }
    if (exchange.door !== 'direct' && settings.proxyAuth === 'required') return challenge(exchange, pipeline, presented);
    return undefined;
  },
};

function presentedToken(exchange: Exchange): string | undefined {
  const { identity, head } = exchange;
  if (exchange.door === 'direct') return bearer(head.headers['authorization']);
  return identity?.workloadToken ?? (identity?.proxyUser === exchange.workloadId ? identity.proxyPassword : undefined);
}

/** No API key exists until they can be made; one that is presented all the same is not valid, and must not pass for no key at all. */
function refuseApiKey(exchange: Exchange, { events }: Pipeline): void {
  const presented = exchange.door === 'direct' ? bearer(exchange.head.headers['authorization']) : exchange.identity?.apiKey;
  if (presented === undefined || (exchange.door === 'direct' && !presented.startsWith('gwk_'))) return;
  events.authFailure({ reason: 'invalid_key', orgId: exchange.orgId });
  throw new GatewayError('unauthorized', 'This API key is not known.');
}

function bearer(header: string | undefined): string | undefined {
  return header !== undefined && /^bearer /i.test(header) ? header.slice(7).trim() : undefined;
}

function challenge(exchange: Exchange, { events, settings }: Pipeline, presented: string | undefined) {
  events.authFailure({
    reason: presented === undefined ? 'missing_header' : 'invalid_key',
    orgId: exchange.orgId || (settings.orgId ?? 'default'),
  });
  const message = `Workload ${exchange.workloadId} needs its token${presented === undefined ? '' : '; the one that was sent is not valid'}.`;
  if (exchange.door === 'tunnel' || exchange.head.door === 'absolute') throw new GatewayError('proxy_authentication_required', message);
  if (exchange.head.door === 'connect') return deny('workload_token_required', message);
  throw new GatewayError('unauthorized', message);
}
