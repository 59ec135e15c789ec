import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Route, RouteAnswer, RouteRequest } from '../http/route.ts';
import { pacFile } from './pac.ts';

export interface TrustOptions {
  /** Undefined when interception is off. */
  readonly ca: { readonly rootPem: string; readonly rootDer: Uint8Array; bundlePem(): string } | undefined;
  readonly catalogues: CurrentCatalogue;
}

/** Trust material and the proxy's automatic configuration (decisions 3.2, 3.4, 3.5); no token is needed for any of it. */
export function trustRoutes(options: TrustOptions): readonly Route[] {
  const needed = () => {
    if (options.ca) return options.ca;
    throw new GatewayError('not_found', 'Interception is off (GW_PROXY_MITM_ENABLED=false), so there is no root certificate.');
  };
  return [
    {
      method: 'GET',
      path: '/v1/proxy/ca.crt',
      auth: 'none',
      ambient: true,
      summary: 'The root certificate: PEM, or DER with `?format=der` or `Accept: application/pkix-cert`.',
      handle: (request) => rootCertificate(request, needed()),
    },
    {
      method: 'GET',
      path: '/v1/proxy/ca-bundle.crt',
      auth: 'none',
      ambient: true,
      summary: "The system's roots and ours in one PEM file, for variables that replace the trust store.",
      handle: () => ({ status: 200, text: needed().bundlePem(), contentType: 'application/x-pem-file' }),
    },
    {
      method: 'GET',
      path: '/proxy.pac',
      auth: 'none',
      ambient: true,
      summary: 'Proxy auto-configuration: AI domains through the proxy, everything else direct; `?all=true` sends everything.',
      handle: ({ head, query }) => {
        const { providers, domains } = options.catalogues.current();
        const text = pacFile({ proxy: head.headers['host'] ?? '', all: query.get('all') === 'true', providers, domains });
        return { status: 200, text, contentType: 'application/x-ns-proxy-autoconfig' };
      },
    },
  ];
}

function rootCertificate({ head, query }: RouteRequest, ca: NonNullable<TrustOptions['ca']>): RouteAnswer {
  const format = query.get('format');
  if (format !== null && format !== 'pem' && format !== 'der') {
    throw new GatewayError('invalid_request', 'format is pem or der.', { details: [{ path: 'format', message: 'pem or der' }] });
  }
  const der = format === 'der' || (format === null && (head.headers['accept'] ?? '').includes('application/pkix-cert'));
  if (der) return { status: 200, bytes: ca.rootDer, contentType: 'application/pkix-cert' };
  return { status: 200, text: ca.rootPem, contentType: 'application/x-pem-file' };
}
