import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { choice } from './members.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import { pacFile } from './pac.ts';
import type { OperationServices } from './services.ts';

const PEM = 'application/x-pem-file';
const DER = 'application/pkix-cert';

/** The last texts that were asked for, as bytes. */
const SHARED = new Map<string, Buffer>();
/** Root and bundle, of one gateway before and after a change of them. */
const MOST_SHARED = 4;

/** One buffer for all who ask: an answer that waits to be read costs nothing then. */
function sharedBytes(text: string): Buffer {
  let bytes = SHARED.get(text);
  if (bytes !== undefined) return bytes;
  bytes = Buffer.from(text);
  const [oldest] = SHARED.keys();
  if (SHARED.size >= MOST_SHARED && oldest !== undefined) SHARED.delete(oldest);
  SHARED.set(text, bytes);
  return bytes;
}

function authority({ trust }: OperationServices) {
  if (trust.ca) return trust.ca;
  throw new GatewayError('not_found', 'Interception is off (GW_PROXY_MITM_ENABLED=false), so there is no root certificate.');
}

/**
 * Trust material and the proxy's automatic configuration (decisions 3.2, 3.4, 3.5); no token is needed for any of it.
 */
export const TRUST_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'trust.root',
    method: 'GET',
    path: '/v1/proxy/ca.crt',
    scope: 'none',
    ambient: true,
    summary: 'The root certificate: PEM, or DER with `?format=der` or `Accept: application/pkix-cert`.',
    annotations: READS,
    errors: ['not_found'],
    input: {
      query: { schema: () => z.object({ format: z.enum(['pem', 'der'], 'pem or der').optional() }), refusal: 'format is pem or der.' },
    },
    output: { status: 200, contentType: PEM },
    available: authority,
    handle: ({ query: { format }, headers }, services) => {
      const ca = authority(services);
      const der = format === 'der' || (format === undefined && (headers['accept'] ?? '').includes(DER));
      return der ? { bytes: ca.rootDer, contentType: DER } : { bytes: sharedBytes(ca.rootPem) };
    },
  }),
  operation({
    id: 'trust.bundle',
    method: 'GET',
    path: '/v1/proxy/ca-bundle.crt',
    scope: 'none',
    ambient: true,
    summary: "The system's roots and ours in one PEM file, for variables that replace the trust store.",
    annotations: READS,
    errors: ['not_found'],
    output: { status: 200, contentType: PEM },
    handle: (_call, services) => ({ bytes: sharedBytes(authority(services).bundlePem()) }),
  }),
  operation({
    id: 'trust.pac',
    method: 'GET',
    path: '/proxy.pac',
    scope: 'none',
    ambient: true,
    summary: 'Proxy auto-configuration: AI domains through the proxy, everything else direct; `?all=true` sends everything.',
    annotations: READS,
    input: {
      query: { schema: () => z.object({ all: choice(['true', 'false']).optional().meta({ description: '`true` sends everything' }) }) },
    },
    output: { status: 200, contentType: 'application/x-ns-proxy-autoconfig' },
    handle: ({ query: { all }, headers }, { trust }) => {
      const { providers, domains } = trust.catalogues.current().forOrg(trust.ownOrg);
      return { text: pacFile({ proxy: headers['host'] ?? '', secure: trust.secureProxy, all: all === 'true', providers, domains }) };
    },
  }),
];
