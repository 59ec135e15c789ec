import type { CurrentCatalogue } from '../base/catalogue/catalogue-in-force.ts';
import type { Config } from '../base/config/config.ts';

/**
 * What is done with the traffic of one host. `govern`: opened, each request goes through policy. `by-host`: policy is asked about the CONNECT, which then is a
 * tunnel. `inspect`: opened, requests are counted and passed on. `pass`: a tunnel, unopened.
 */
export type Treatment = 'govern' | 'by-host' | 'inspect' | 'pass';

export interface TreatmentRules extends Pick<Config, 'proxyBypass' | 'proxyNonAi'> {
  readonly catalogues: CurrentCatalogue;
  /** `GW_PROXY_MITM_ENABLED`; without it nothing is opened, and what is governed is decided by its host. */
  readonly intercept: boolean;
}

/** What is done with what is no call on a host that carries calls and much else: left to pass, once the CONNECT was decided or without that, or decided as everything. */
export type RestOfHost = 'pass' | 'by-host' | 'govern';

/** Decision 3.8: `GW_PROXY_NON_AI` says whether the rest of a shared host is decided too. @param host canonical, of a shared row */
export function restOfHost(host: string, { catalogues, proxyNonAi }: TreatmentRules): RestOfHost {
  if (proxyNonAi === 'govern') return 'govern';
  return proxyNonAi === 'govern-ai' && catalogues.current().domain(host) !== undefined ? 'by-host' : 'pass';
}

/** Decision 3.8: an AI host is governed, `GW_PROXY_NON_AI` decides about every other one, `GW_PROXY_BYPASS` comes first. @param host canonical */
export function treatmentOf(host: string, { catalogues, intercept, proxyBypass, proxyNonAi }: TreatmentRules): Treatment {
  if (proxyBypass.has(host)) return 'pass';
  const catalogue = catalogues.current();
  if (catalogue.providerForHost(host) !== undefined || proxyNonAi === 'govern') return intercept ? 'govern' : 'by-host';
  if (proxyNonAi === 'govern-ai' && catalogue.domain(host) !== undefined) return 'by-host';
  return proxyNonAi === 'inspect' && intercept ? 'inspect' : 'pass';
}
