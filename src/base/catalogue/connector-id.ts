import { nearestName } from '../lib/mistakes.ts';
import type { Catalogue } from './types.ts';

/**
 * The connector that takes any host and gives it nothing: no dialect, no credential, no streaming on the structured
 * API.
 */
export const GENERIC_HTTP = 'generic_http';
/** Its version; the rows of the registry have their own. */
export const GENERIC_HTTP_VERSION = '1.0.0';
const GENERIC_ALIASES: readonly string[] = [GENERIC_HTTP, 'generic'];
const CUSTOM_PREFIX = 'custom:';
/**
 * What may stand before the id of a custom connector, in any letter case (specification, "Budget limit creation
 * rules").
 */
const PREFIXED = /^(?:custom|catalog):(.*)$/is;

/** The connector id of a custom connector. */
export function customConnectorId(id: string): string {
  return CUSTOM_PREFIX + id;
}

/** Whether a canonical id is that of a custom connector. */
export function isCustomConnectorId(id: string): boolean {
  return id.startsWith(CUSTOM_PREFIX);
}

/** The connector id that a name of a custom connector stands for: with either prefix or none, in any letter case. */
export function asCustomConnectorId(text: string): string {
  return customConnectorId((PREFIXED.exec(text)?.[1] ?? text).toLowerCase());
}

/**
 * The one place where a connector id from outside (hint, rule, credential, URL prefix, filter) is folded to the
 * canonical one (decision 1): neutral names and aliases become real ids, case is ignored. Ids of custom connectors
 * (`custom:<id>`, decision 8.7) pass, whether there is such a connector or not.
 * @returns undefined for a name that nobody has
 */
export function canonicalConnectorId(catalogue: Catalogue, text: string): string | undefined {
  if (GENERIC_ALIASES.includes(text.toLowerCase())) return GENERIC_HTTP;
  const custom = PREFIXED.exec(text)?.[1];
  if (custom !== undefined) return custom === '' ? undefined : asCustomConnectorId(custom);
  return catalogue.provider(text)?.id;
}

/** The canonical id of a connector that is there: of a registry row, or `generic_http`. */
export function registeredConnectorId(catalogue: Catalogue, text: string): string | undefined {
  const id = canonicalConnectorId(catalogue, text);
  return id === GENERIC_HTTP || (id !== undefined && catalogue.provider(id) !== undefined) ? id : undefined;
}

/**
 * Whether a connector takes calls to a host, as the registry has it; undefined of custom connectors. `generic_http`
 * takes any.
 */
export function coversHost(catalogue: Catalogue, connectorId: string, host: string): boolean | undefined {
  if (isCustomConnectorId(connectorId)) return undefined;
  return connectorId === GENERIC_HTTP || catalogue.providerForHost(host)?.id === connectorId;
}

/**
 * The same for a name that stands in a setting.
 * @throws RangeError that names the setting and what it takes
 */
export function configuredConnectorId(catalogue: Catalogue, name: string, variable: string): string {
  const id = registeredConnectorId(catalogue, name);
  if (id !== undefined) return id;
  const ids = [...catalogue.providers.map((provider) => provider.id), GENERIC_HTTP];
  const nearest = nearestName(name, ids);
  const hint = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  throw new RangeError(`${variable}: ${JSON.stringify(name)} is no connector${hint} it takes ${ids.join(', ')}`);
}

/**
 * Connector ids by action type, as `GW_ACTION_TYPE_CONNECTORS` maps them.
 * @throws RangeError for a name that no connector has
 */
export function actionTypeConnectors(catalogue: Catalogue, names: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map(Array.from(names, ([type, name]) => [type, configuredConnectorId(catalogue, name, 'GW_ACTION_TYPE_CONNECTORS')]));
}

/** Ids that no registry row may take. */
export function isReservedConnectorId(id: string): boolean {
  return GENERIC_ALIASES.includes(id) || id.startsWith('custom');
}
