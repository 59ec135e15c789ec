import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import forge from 'node-forge';

const YEAR_MS = 365 * 86_400_000;

export interface ThrowAwayAuthority {
  readonly certificatePem: string;
  readonly privateKeyPem: string;
  readonly publicKeyPem: string;
}

/**
 * An RSA authority that signs nothing and that nobody trusts, for a library that cannot start without one. With it in
 * place the library does not make its own, which takes a quarter of a second and stalls the event loop for a third of
 * that.
 */
export async function throwAwayAuthority(now: number): Promise<ThrowAwayAuthority> {
  // The weakest key that OpenSSL makes: it must be parsed, it must never be used.
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 512 });
  const keyPair = forge.pki.privateKeyFromPem(privateKey.export({ type: 'pkcs1', format: 'pem' }).toString());
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.setRsaPublicKey(keyPair.n, keyPair.e);
  certificate.serialNumber = '01';
  certificate.validity.notBefore.setTime(now);
  certificate.validity.notAfter.setTime(now + YEAR_MS);
  const name = [{ name: 'commonName', value: 'never used' }];
  certificate.setSubject(name);
  certificate.setIssuer(name);
  certificate.sign(keyPair, forge.md.sha256.create());
  return {
    certificatePem: forge.pki.certificateToPem(certificate),
    privateKeyPem: forge.pki.privateKeyToPem(keyPair),
    publicKeyPem: forge.pki.publicKeyToPem(certificate.publicKey),
  };
}
