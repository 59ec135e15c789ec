import { customConnectorId } from './connector-id.ts';
import type { ConnectorTemplate } from './connector-templates.ts';
import { HTTP_REQUEST } from './operations.ts';
import type { AuthScheme, Operation, Provider } from './types.ts';

/** A connector that an org has made, as the catalogue needs to know it. */
export interface CustomRow {
  /** Without the prefix of a connector id. */
  readonly id: string;
  readonly orgId: string;
  /** Canonical. */
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Of its base URL, without a slash at its end. */
  readonly path: string;
  readonly dialect: string;
  readonly auth: CustomAuth;
  readonly defaultModel: string | undefined;
}

/** How a custom connector is given its key. */
export type CustomAuth =
  | { readonly mode: 'bearer' | 'none' }
  /** Lower case. */
  | { readonly mode: 'header'; readonly header: string }
  | { readonly mode: 'query'; readonly query: string };

/** The versions of the registry's rows are theirs; these have one of the gateway's. */
const VERSION = '1.0.0';

/** The row that a custom connector is in a catalogue (decision 8.7). */
export function customProvider({ id, orgId, host, port, tls, path, auth, defaultModel }: CustomRow, template: ConnectorTemplate): Provider {
  const basePath = path === '' ? template.base : path;
  const authQuery = auth.mode === 'query' ? auth.query : undefined;
  return Object.freeze({
    id: customConnectorId(id),
    version: VERSION,
    neutralId: undefined,
    aliases: [],
    kind: 'custom',
    inProxyRegistry: true,
    hosts: [host],
    hostPatterns: [],
    customerDomains: [],
    shared: false,
    planPaths: [],
    pathsIgnoreCase: false,
    defaultPath: basePath + template.defaultPath,
    defaultPaths: new Map(Array.from(template.defaultPaths, ([type, below]) => [type, basePath + below])),
    auth: schemesOf(auth),
    authQueryNames: authQuery === undefined ? [] : [authQuery],
    authSubprotocol: undefined,
    versionHeader: template.versionHeader,
    idempotencyHeader: undefined,
    errorShape: template.errorShape,
    takesOauth: false,
    docsUrl: undefined,
    needsCredential: auth.mode !== 'none',
    canStream: true,
    priceLists: [],
    priceSuppliers: undefined,
    custom: Object.freeze({ orgId, port, tls, basePath, authQuery, defaultModel }),
  });
}

function schemesOf(auth: CustomAuth): readonly AuthScheme[] {
  if (auth.mode === 'bearer') return [{ header: 'authorization', format: 'Bearer {key}' }];
  return auth.mode === 'header' ? [{ header: auth.header, format: '{key}' }] : [];
}

/**
 * What a path means at a custom connector: below its base path as the template says, elsewhere on its host the same
 * from the root.
 */
export function customOperation(
  { custom }: Provider,
  template: ConnectorTemplate | undefined,
  method: string,
  path: string,
  upgrade: boolean,
): Operation {
  const base = custom?.basePath ?? '';
  const isBelow = base !== '' && path.startsWith(base) && (path.length === base.length || path[base.length] === '/');
  return template?.operations.find(method, isBelow ? path.slice(base.length) || '/' : path, upgrade) ?? HTTP_REQUEST;
}

/** Where the calls to a provider go unless somebody says otherwise. */
export function usualOrigin(provider: Provider | undefined): { readonly port: number; readonly tls: boolean } {
  return provider?.custom ?? HTTPS;
}

const HTTPS = { port: 443, tls: true };

/**
 * The path of a redirect's rest (`/proxy/{id}/…`) at the provider: below the base path of a custom connector, unless it
 * names that already.
 */
export function pathBelowBase({ custom }: Provider, rest: string): string {
  const base = custom?.basePath ?? '';
  if (base === '' || (rest.startsWith(base) && (rest.length === base.length || '/?'.includes(rest[base.length] ?? '')))) return rest;
  return base + rest;
}

/**
 * Where a custom connector is, as a price list names the addresses of providers: `https://host/path`, with a port that
 * is not the usual one.
 */
export function addressOf({ hosts: [host = ''], custom }: Provider): string {
  const { port, tls } = custom ?? HTTPS;
  const usual = tls ? HTTPS.port : 80;
  return `${tls ? 'https' : 'http'}://${host}${port === usual ? '' : `:${port}`}${custom?.basePath ?? ''}`;
}
