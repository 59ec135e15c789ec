import { GatewayError } from '../base/lib/gateway-error.ts';

/**
 * The org for which something is made: a key for one that this gateway does not serve would let nobody in.
 * @param own of this gateway; undefined when it serves every org
 * @param what the subject of the refusal
 * @throws GatewayError `invalid_request`
 */
export function servedOrg(given: string | undefined, own: string | undefined, what: string): string {
  if (own === undefined || given === undefined || given === own) return given ?? own ?? 'default';
  throw new GatewayError('invalid_request', `${what} has 1 bad member(s).`, {
    details: [{ path: 'org_id', message: `must be ${own}, the org of this gateway` }],
  });
}
