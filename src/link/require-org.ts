import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';

/** An entry of this org, or of none that it names. @throws GatewayError `invalid_request` */
export function requireOrg(body: unknown, orgId: string): unknown {
  if (!isJsonObject(body) || body['org_id'] === undefined || body['org_id'] === orgId) return body;
  throw new GatewayError('invalid_request', 'The entry is of another org.', {
    details: [{ path: 'org_id', message: `must be ${orgId}, the org of this gateway` }],
  });
}
