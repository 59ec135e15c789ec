/* What is measured of the domains that traffic goes to; rows of the one table. */

export const DISCOVERY_METRICS = {
  discoveredDomains: { name: 'gw_discovered_domains', type: 'gauge', labels: [], help: 'Domains on the discovery list.' },
  domainKinds: {
    name: 'gw_discovered_domain_kinds',
    type: 'gauge',
    labels: ['kind'],
    help: 'Domains on the discovery list: `governed` by a connector; `ai`, on the list of AI domains without one; `lookalike`, like an AI API without one; `other`, not AI.',
  },
  domainHits: {
    name: 'gw_discovered_domain_hits',
    type: 'gauge',
    labels: ['kind'],
    help: 'Connections and requests to the domains on the discovery list, since each came to it; falls when domains are let go or forgotten.',
  },
  lookalikeDomains: {
    name: 'gw_lookalike_domains',
    type: 'gauge',
    labels: [],
    help: 'Domains on the discovery list that look like an AI API, by name or by a request, and that no connector covers.',
  },
} as const;
