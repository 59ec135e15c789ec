import { isSignature, signedHeaders } from '../../outbound/connectors/signed-headers.ts';
import { hostHeader } from '../../outbound/net/request-head.ts';
import type { Exchange } from '../exchange.ts';
import { byName } from '../flat-headers.ts';
import { outboundHeaders } from '../outbound-headers.ts';
import { deny } from '../refusals.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Written by the net room from what is sent; with the body as it came they are what they were. */
const FOLLOWS_BODY = 'content-length';

/**
 * A call that its caller signed (AWS Signature Version 4) goes out exactly as it was signed, or not at all: the provider would refuse it, and say nothing of who
 * changed it. A key of ours that is put in takes the place of the signature.
 */
export const keepSignature: Stage = {
  name: 'keep signature',
  run(exchange, pipeline) {
    const { credential, request, head } = exchange;
    if (credential?.kind === 'stored' || credential?.kind === 'hint') return undefined;
    const authorization = request ? byName(exchange.headers)['authorization'] : head.headers['authorization'];
    const signed = signedHeaders(authorization, exchange.path);
    if (signed === undefined) return undefined;
    exchange.signedHeaders = signed;
    const change = isSignature(authorization) ? brokenCall(exchange) : brokenUrl(exchange);
    const reason = change ?? changedHeader(exchange, signed, pipeline);
    if (reason === undefined) return undefined;
    return deny('signature_would_break', `${reason}, which would break the signature of the caller (AWS Signature Version 4).`);
  },
};

/** What its caller signed is the request that it sent. */
function brokenCall(exchange: Exchange): string | undefined {
  const { request, sendBytes, head, host, port, tls } = exchange;
  if (request && sendBytes) return 'The structured API writes the body of a call itself';
  const change = mutated(exchange);
  if (request || change) return change;
  const sentHost = hostHeader({ authority: { host, port }, tls });
  if (head.headers['host'] !== sentHost) return `The call goes to the host ${sentHost} and is signed for another one`;
  return exchange.path === pathAsSigned(head.rawTarget) ? undefined : RESPELT;
}

/** A signature in the query was made by somebody else, for the upstream's own URL, whatever way it comes here. */
function brokenUrl(exchange: Exchange): string | undefined {
  const { request, head, facts, host, path } = exchange;
  const change = mutated(exchange);
  if (change) return change;
  if (facts && facts.target_host !== host) return `Policy moves the call to the host ${host}`;
  return request || head.rawTarget.endsWith(path) ? undefined : RESPELT;
}

const RESPELT = 'The path is sent in another spelling than it came in';

function mutated({ changes }: Exchange): string | undefined {
  const change = changes.find(({ key }) => !key.startsWith('action.headers.'));
  return change && `Policy changes ${change.key}`;
}

/** A client of a forward proxy sends a whole URL and signs its path. */
function pathAsSigned(rawTarget: string): string {
  const path = rawTarget.startsWith('/') ? rawTarget : rawTarget.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

function changedHeader(exchange: Exchange, signed: readonly string[], pipeline: Pipeline): string | undefined {
  const came = valuesByName(exchange.request ? exchange.headers : exchange.head.rawHeaders);
  const sent = valuesByName(outboundHeaders(exchange, pipeline));
  const changed = signed.find((name) => name !== 'host' && name !== FOLLOWS_BODY && came.get(name) !== sent.get(name));
  return changed && `The header ${changed} is not passed on as it came`;
}

/** All values of each header in their order. A caller may name thousands of headers, so each list is gone through once. */
function valuesByName(flat: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const name = flat[at]?.toLowerCase() ?? '';
    const value = flat[at + 1] ?? '';
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return values;
}
