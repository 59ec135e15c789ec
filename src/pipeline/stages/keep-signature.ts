import { signedHeaders } from '../../outbound/connectors/signed-headers.ts';
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
    const change = breakingChange(exchange, signed, pipeline);
    if (change === undefined) return undefined;
    return deny('signature_would_break', `${change}, which would break the signature of the caller (AWS Signature Version 4).`);
  },
};

function breakingChange(exchange: Exchange, signed: readonly string[], pipeline: Pipeline): string | undefined {
  const { request, head, host, port, tls } = exchange;
  if (request) return 'The structured API writes path and body of a call itself';
  const mutation = exchange.changes.find(({ key }) => !key.startsWith('action.headers.'));
  if (mutation) return `Policy changes ${mutation.key}`;
  const sentHost = hostHeader({ authority: { host, port }, tls });
  if (head.headers['host'] !== sentHost) return `The call goes to the host ${sentHost} and is signed for another one`;
  if (exchange.path !== pathAsSigned(head.rawTarget)) return 'The path is sent in another spelling than it came in';
  const name = changedHeader(signed, head.rawHeaders, outboundHeaders(exchange, pipeline));
  return name === undefined ? undefined : `The header ${name} is not passed on as it came`;
}

/** A client of a forward proxy sends a whole URL and signs its path. */
function pathAsSigned(rawTarget: string): string {
  const path = rawTarget.startsWith('/') ? rawTarget : rawTarget.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

function changedHeader(signed: readonly string[], came: readonly string[], sent: readonly string[]): string | undefined {
  return signed.find((name) => name !== 'host' && name !== FOLLOWS_BODY && valuesOf(came, name) !== valuesOf(sent, name));
}

/** All values of a header in their order. */
function valuesOf(flat: readonly string[], lowerName: string): string {
  return flat.filter((_, at) => at % 2 === 1 && flat[at - 1]?.toLowerCase() === lowerName).join('\n');
}
