import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { certificatesIn } from '../../base/lib/pem.ts';
import { readAuthority } from '../../inbound/ca/authority-certificate.ts';
import { ROOT_CERTIFICATE } from '../../inbound/ca/root-files.ts';
import { isOwnRoot, readRootState } from '../../inbound/ca/root-state.ts';
import { type CliIo, Unusable } from '../command.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { GatewayClient, sendToGateway } from '../gateway-client.ts';
import { settingsOf } from '../settings-of.ts';
import { derOf, fingerprint } from './trust-place.ts';

const ROOT_PATH = '/v1/proxy/ca.crt';

/** The roots of one gateway. */
export interface GatewayRoots {
  /** What clients are to trust, the one that signs first; DER. */
  readonly trusted: readonly Buffer[];
  /** Fingerprints of all that are known to be this gateway's, those of earlier rotations included. */
  readonly own: ReadonlySet<string>;
  /** A path or an address, for people. */
  readonly from: string;
}

/**
 * Reads them from `GW_CA_DIR`; where that cannot be read, or an address is given, a running gateway is asked.
 * @throws UsageError; Unusable when neither has one
 */
export async function gatewayRoots(url: string | undefined, io: CliIo): Promise<GatewayRoots> {
  const { caDir } = settingsOf(io);
  const file = join(resolve(caDir), ROOT_CERTIFICATE);
  const text = url === undefined ? await readFile(file, 'utf8').catch(() => undefined) : undefined;
  if (text !== undefined) {
    const { made } = await readRootState(caDir);
    return rootsOf(anchorsIn(text), made, file);
  }
  const gateway = GatewayClient.firstPlace(io, url);
  return servedRoots(gateway).catch((error: unknown) => {
    if (url !== undefined) throw error;
    throw new Unusable(`there is no root: ${file} cannot be read, and no gateway answers at ${gateway.origin}; start it first`, {
      cause: error,
    });
  });
}

/** Those that a running gateway hands out, as it says. @throws Unusable when it hands none out */
export async function servedRoots(gateway: GatewayAddress): Promise<GatewayRoots> {
  const answer = await sendToGateway(gateway, ROOT_PATH, { method: 'GET', headers: {} });
  if (answer.status !== 200) throw new Unusable(`${gateway.origin} hands no root out (${answer.status})`);
  return rootsOf(certificatesIn(answer.text), [], new URL(ROOT_PATH, gateway).href);
}

function rootsOf(pem: readonly string[], made: readonly string[], from: string): GatewayRoots {
  const trusted = pem.map(derOf);
  if (trusted.length === 0) throw new Unusable(`${from} holds no certificate`);
  for (const der of trusted) checkRoot(der, from);
  return { trusted, own: new Set([...trusted.map(fingerprint), ...made]), from };
}

/** @throws Unusable: what comes from a network is not put into a trust store unread */
function checkRoot(der: Buffer, from: string): void {
  try {
    if (readAuthority(der).x509.ca) return;
  } catch (error) {
    throw new Unusable(`what ${from} holds is no certificate`, { cause: error });
  }
  throw new Unusable(`what ${from} holds is not the certificate of an authority`);
}

/** Of a company's chain the root at its end, else the first; of a gateway's own roots all. */
function anchorsIn(text: string): readonly string[] {
  const all = certificatesIn(text);
  if (all.every(isOwnRoot)) return all;
  const last = all.at(-1);
  const isRoot = last !== undefined && readAuthority(new X509Certificate(last).raw).selfSigned;
  return all.slice(...(isRoot ? [-1] : [0, 1]));
}
