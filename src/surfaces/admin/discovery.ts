import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Discovery } from '../../services/discovery.ts';
import type { Route } from '../http/route.ts';

/**
 * The domains that traffic goes to (specification, "Gateway admin API"; decision 8.9).
 * @param discovery undefined when `GW_DISCOVERY_ENABLED=false`: then both are 404
 */
export function discoveryRoutes(discovery: Discovery | undefined): readonly Route[] {
  const enabled = (): Discovery => {
    if (discovery) return discovery;
    throw new GatewayError('not_found', 'Discovery is switched off (GW_DISCOVERY_ENABLED=false).');
  };
  return [
    {
      method: 'GET',
      path: '/v1/admin/discovery/domains',
      auth: 'admin',
      summary: 'Domains that traffic went to, with counts; `managed=true` or `false` for those with or without a connector.',
      handle: ({ query }) => {
        const domains = enabled();
        return { status: 200, json: { domains: domains.list(managedOf(query)) } };
      },
    },
    {
      method: 'DELETE',
      path: '/v1/admin/discovery/domains',
      auth: 'admin',
      summary: 'Forgets all discovered domains and their counts.',
      handle: async () => {
        await enabled().reset();
        return { status: 204 };
      },
    },
  ];
}

function managedOf(query: URLSearchParams): boolean | undefined {
  const text = query.get('managed');
  if (text === null) return undefined;
  if (text === 'true' || text === 'false') return text === 'true';
  throw new GatewayError('invalid_request', 'The query is not valid.', {
    details: [{ path: 'managed', message: 'must be true or false' }],
  });
}
