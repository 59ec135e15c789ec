import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import type { Config } from '../../base/config/config.ts';
import { SELF_TEST_HOST } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';

/**
 * What is done with the traffic of one host. `govern`: opened, each request goes through policy. `by-host`: policy is
 * asked about the CONNECT, which then is a tunnel. `inspect`: opened, requests are counted and passed on. `pass`: a
 * tunnel, unopened.
 */
export type Treatment = 'govern' | 'by-host' | 'inspect' | 'pass';

export interface TreatmentRules extends Pick<Config, 'proxyBypass' | 'proxyNonAi'> {
  readonly catalogues: CurrentCatalogue;
  /** `GW_PROXY_MITM_ENABLED`; without it nothing is opened, and what is governed is decided by its host. */
  readonly intercept: boolean;
}

/**
 * Whether what is no call on a shared host passes undecided, as traffic that is not AI. Where `GW_PROXY_NON_AI` puts
 * such traffic under policy, the rest of a known AI domain is decided request by request, since its tunnel is open
 * (decision 3.8).
 * @param host canonical, of a shared row
 */
export function restPasses(host: string, { catalogues, proxyNonAi }: TreatmentRules): boolean {
  return proxyNonAi !== 'govern' && (proxyNonAi !== 'govern-ai' || catalogues.current().domain(host) === undefined);
}

/**
 * Whether some org has a connector of its own at this host: what becomes of traffic to it then depends on the org of
 * its caller (decision 3.8).
 * @param host canonical
 */
export function dependsOnOrg(host: string, { catalogues }: Pick<TreatmentRules, 'catalogues'>): boolean {
  const catalogue = catalogues.current();
  return catalogue.hasCustom && catalogue.providerForHost(host)?.custom !== undefined;
}

/**
 * Decision 3.8: an AI host is governed, `GW_PROXY_NON_AI` decides about every other one, `GW_PROXY_BYPASS` comes first.
 * @param host canonical
 * @param org of the caller; it may be left out where the host does not {@link dependsOnOrg depend on it}
 */
export function treatmentOf(host: string, { catalogues, intercept, proxyBypass, proxyNonAi }: TreatmentRules, org?: string): Treatment {
  if (proxyBypass.has(host)) return 'pass';
  const catalogue = catalogueFor(org, catalogues);
  if (catalogue.providerForHost(host) !== undefined || proxyNonAi === 'govern') return intercept ? 'govern' : 'by-host';
  if (proxyNonAi === 'govern-ai' && catalogue.domain(host) !== undefined) return 'by-host';
  return proxyNonAi === 'inspect' && intercept ? 'inspect' : 'pass';
}

/** What a caller of this org sees; undefined: of a host that does not depend on it. */
export function catalogueFor(org: string | undefined, catalogues: CurrentCatalogue): Catalogue {
  const catalogue = catalogues.current();
  return org === undefined ? catalogue : catalogue.forOrg(org);
}

/** Whether an authority is the name behind which the gateway itself answers (decision 12.11). */
export function isSelfTest({ host, port }: Authority): boolean {
  return host === SELF_TEST_HOST && port === 443;
}
