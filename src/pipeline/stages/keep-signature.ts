import { isSignature, signedHeaders } from '../../outbound/connectors/auth.ts';
import { hostHeader } from '../../outbound/net/request-head.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { CallMutation, Parts } from '../parts/parts.ts';
import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { byName } from '../route/flat-headers.ts';
import { outboundHeaders } from '../route/outbound-headers.ts';

const READ = ['arrival', 'action', 'facts', 'mutation', 'mutated', 'route', 'dressed'] as const;
type Read = Pick<Parts, (typeof READ)[number]>;

/** Written by the net room from what is sent; with the body as it came they are what they were. */
const FOLLOWS_BODY = 'content-length';
const NOT_SIGNED = { signed: { headers: undefined } };

/**
 * A call that its caller signed (AWS Signature Version 4) goes out exactly as it was signed, or not at all: the provider would refuse it, and say nothing of who
 * changed it. A key of ours that is put in takes the place of the signature.
 */
export const keepSignature = defineStage({
  name: 'keep signature',
  reads: READ,
  makes: ['signed'],
  run(parts, { settings }) {
    const { arrival, action, route, dressed } = parts;
    if (route.credential?.kind === 'stored' || route.credential?.kind === 'hint') return NOT_SIGNED;
    const authorization = action.isEnvelope ? byName(dressed.headers)['authorization'] : arrival.head.headers['authorization'];
    const headers = signedHeaders(authorization, dressed.path);
    if (headers === undefined) return NOT_SIGNED;
    const change = isSignature(authorization) ? brokenCall(parts) : brokenUrl(parts);
    const reason = change ?? changedHeader(parts, headers, settings);
    if (reason === undefined) return { signed: { headers } };
    return deny('signature_would_break', `${reason}, which would break the signature of the caller (AWS Signature Version 4).`);
  },
});

/** What its caller signed is the request that it sent. */
function brokenCall({ arrival: { head }, action, mutation, mutated, route, dressed }: Read): string | undefined {
  if (action.isEnvelope && mutated.bytes) return 'The structured API writes the body of a call itself';
  const change = mutationOf(mutation);
  if (action.isEnvelope || change) return change;
  const { host, port, tls } = route;
  const sentHost = hostHeader({ authority: { host, port }, tls });
  if (head.headers['host'] !== sentHost) return `The call goes to the host ${sentHost} and is signed for another one`;
  return dressed.path === pathAsSigned(head.rawTarget) ? undefined : RESPELT;
}

/** A signature in the query was made by somebody else, for the upstream's own URL, whatever way it comes here. */
function brokenUrl({ arrival: { head }, action, facts, mutation, route, dressed }: Read): string | undefined {
  const change = mutationOf(mutation);
  if (change) return change;
  if (facts.target_host !== route.host) return `Policy moves the call to the host ${route.host}`;
  return action.isEnvelope || head.rawTarget.endsWith(dressed.path) ? undefined : RESPELT;
}

const RESPELT = 'The path is sent in another spelling than it came in';

function mutationOf({ changes }: CallMutation): string | undefined {
  const change = changes.find(({ key }) => !key.startsWith('action.headers.'));
  return change && `Policy changes ${change.key}`;
}

/** A client of a forward proxy sends a whole URL and signs its path. */
function pathAsSigned(rawTarget: string): string {
  const path = rawTarget.startsWith('/') ? rawTarget : rawTarget.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}

function changedHeader(
  { arrival, action, route, dressed }: Read,
  signed: readonly string[],
  settings: PipelineSettings,
): string | undefined {
  const came = valuesByName(action.isEnvelope ? dressed.headers : arrival.head.rawHeaders);
  const sent = valuesByName(outboundHeaders({ arrival, route, headers: dressed.headers, signed }, settings));
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
