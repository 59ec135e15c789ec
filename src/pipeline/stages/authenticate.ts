import { requestLine, shown } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { WORKLOAD_TOKEN_PREFIX } from '../../services/workloads.ts';
import type { Exchange } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

const API_KEY_PREFIX = 'gwk_';

/**
 * What the head of a structured call can tell, before a byte of its body is read: who it is for stands in there, but with `GW_PROXY_AUTH=required` some workload's token
 * must be shown, so that no body is held for a stranger.
 */
export const knock: Stage = {
  name: 'knock',
  run(exchange, pipeline) {
    const presented = bearer(exchange.head.headers['authorization']);
    refuseApiKey(exchange, pipeline, presented?.startsWith(API_KEY_PREFIX) ? presented : undefined);
    const { workloads, settings } = pipeline;
    exchange.provenWorkload = presented?.startsWith(WORKLOAD_TOKEN_PREFIX) ? workloads.holderOf(presented) : undefined;
    if (settings.proxyAuth !== 'required' || exchange.provenWorkload !== undefined) return undefined;
    tellOfFailure(exchange, pipeline, presented);
    throw new GatewayError(
      'unauthorized',
      `A structured call needs a workload's token (Authorization: Bearer)${presented === undefined ? '' : '; the one that was sent is not valid'}.`,
    );
  },
};

/**
 * A workload that has a token must present it (decision 4.5); with `GW_PROXY_AUTH=required` every proxied caller must. How a missing token is
 * answered depends on the door: a proxy asks with 407, the gateway's own port with 401, and inside a tunnel the answer is a recorded denial.
 */
export const authenticate: Stage = {
  name: 'authenticate',
  run(exchange, pipeline) {
    const { workloads, settings } = pipeline;
    if (exchange.door !== 'direct') refuseApiKey(exchange, pipeline, exchange.identity?.apiKey);
    const fixed = exchange.head.tunnel?.fixedWorkload;
    if (fixed !== undefined) {
      exchange.provenWorkload = fixed;
      if (fixed === exchange.workloadId) return undefined;
      return deny('workload_mismatch', `This tunnel was opened for workload ${fixed}; requests inside it cannot name another.`);
    }
    const presented = presentedToken(exchange);
    if (workloads.hasToken(exchange.workloadId)) {
      if (presented === undefined || !workloads.tokenMatches(exchange.workloadId, presented))
        return challenge(exchange, pipeline, presented);
      exchange.provenWorkload = exchange.workloadId;
      return undefined;
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
function refuseApiKey(exchange: Exchange, pipeline: Pipeline, presented: string | undefined): void {
  if (presented === undefined) return;
  tellOfFailure(exchange, pipeline, presented);
  throw new GatewayError('unauthorized', 'This API key is not known.');
}

function bearer(header: string | undefined): string | undefined {
  return header !== undefined && /^bearer /i.test(header) ? header.slice(7).trim() : undefined;
}

function tellOfFailure(exchange: Exchange, { events, settings }: Pipeline, presented: string | undefined): void {
  const { door, head, callerIp, workloadId } = exchange;
  events.authFailure({
    reason: presented === undefined ? 'missing_header' : 'invalid_key',
    orgId: exchange.orgId || (settings.orgId ?? 'default'),
    surface: door === 'direct' ? 'api' : 'proxy',
    callerIp,
    request: requestLine(head),
    // On the structured API it stands in a body that was not read for a stranger.
    ...(workloadId === '' ? {} : { workloadId: shown(workloadId) }),
  });
}

function challenge(exchange: Exchange, pipeline: Pipeline, presented: string | undefined) {
  tellOfFailure(exchange, pipeline, presented);
  const message = `Workload ${exchange.workloadId} needs its token${presented === undefined ? '' : '; the one that was sent is not valid'}.`;
  if (exchange.door === 'tunnel' || exchange.head.door === 'absolute') throw new GatewayError('proxy_authentication_required', message);
  if (exchange.head.door === 'connect') return deny('workload_token_required', message);
  throw new GatewayError('unauthorized', message);
}
