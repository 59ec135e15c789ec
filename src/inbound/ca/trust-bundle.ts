import { readFile } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';

/** Where systems keep all their trusted roots in one PEM file; the first that is there is taken. */
const SYSTEM_BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
];
const CERTIFICATE = /-----BEGIN CERTIFICATE-----([\s\S]*?)-----END CERTIFICATE-----/g;

/**
 * All roots that programs on this machine trust, and ours: for variables that replace the trust store, such as
 * `SSL_CERT_FILE` and `REQUESTS_CA_BUNDLE`, with which a file of ours alone would break every connection that is not
 * intercepted.
 * @param candidates where to look for the system's own bundle, so that a company's private roots are not lost
 */
export async function trustBundle(rootPem: string, candidates: readonly string[] = SYSTEM_BUNDLES): Promise<string> {
  const bodies = new Set<string>();
  for (const text of [...rootCertificates, await firstReadable(candidates), rootPem]) {
    for (const [, body = ''] of text.matchAll(CERTIFICATE)) bodies.add(body.replace(/\s+/g, ''));
  }
  let bundle = '';
  for (const body of bodies) bundle += `-----BEGIN CERTIFICATE-----\n${body.replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
  return bundle;
}

async function firstReadable(candidates: readonly string[]): Promise<string> {
  for (const path of candidates) {
    try {
      return await readFile(path, 'utf8');
    } catch {
      // Not this system's place.
    }
  }
  return '';
}
