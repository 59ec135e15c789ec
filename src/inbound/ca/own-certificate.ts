import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import { timestamp } from '../../base/lib/clock.ts';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { certificatePem } from './certificate.ts';

const MAX_BYTES = 262_144;

/** Where the certificate of the gateway's own ports is (`GW_TLS_CERT_FILE`, `GW_TLS_KEY_FILE`). */
export interface OwnCertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** What both files hold, as it was read. */
export interface OwnCertificateTexts {
  readonly cert: string;
  readonly key: string;
}

/** A certificate for the gateway's own ports that can be used. */
export interface OwnCertificate {
  readonly context: SecureContext;
  /** The last of its chain: the one that a root has signed, or the root itself. */
  readonly issued: X509Certificate;
  /** Milliseconds since the epoch. */
  readonly notAfter: number;
  /** Lower-case hex SHA-256. */
  readonly fingerprint: string;
  /**
   * For people: `DNS:gw.example.com, IP Address:10.0.0.7`; empty without a subject alternative name, and then no client
   * of today takes it.
   */
  readonly names: string;
  /** Whether a client that dials this host takes it. */
  covers(host: string): boolean;
}

/** The system's errors name the setting and the file. @throws Error */
export async function readOwnTexts({ certFile, keyFile }: OwnCertificateFiles): Promise<OwnCertificateTexts> {
  return { cert: await readText('GW_TLS_CERT_FILE', certFile), key: await readText('GW_TLS_KEY_FILE', keyFile) };
}

/**
 * Judges a pair: the certificate stands first in its file, behind it those that issued it.
 * @param now milliseconds since the epoch
 * @throws Error in one line that names the setting, the file and what is wrong
 */
export function judgeOwnCertificate(files: OwnCertificateFiles, texts: OwnCertificateTexts, now: number): OwnCertificate {
  const { certFile, keyFile } = files;
  const chain = chainOf(certFile, texts.cert);
  const key = keyOf(keyFile, texts.key);
  const [leaf] = chain;
  if (!leaf.checkPrivateKey(key)) {
    const other = chain.findIndex((certificate) => certificate.checkPrivateKey(key));
    throw new Error(
      other > 0
        ? `GW_TLS_CERT_FILE: the certificate of the key stands at place ${other + 1} of ${certFile}; it goes first, behind it the one that issued it, and so on`
        : `GW_TLS_KEY_FILE: ${keyFile} is not the key of the certificate in ${certFile}`,
    );
  }
  const notAfter = Date.parse(leaf.validTo);
  if (notAfter <= now) throw new Error(`GW_TLS_CERT_FILE: the certificate in ${certFile} expired at ${timestamp(notAfter)}`);
  const notBefore = Date.parse(leaf.validFrom);
  if (notBefore > now)
    throw new Error(
      `GW_TLS_CERT_FILE: the certificate in ${certFile} is not valid before ${timestamp(notBefore)}; is the clock of this machine right?`,
    );
  return {
    context: contextOf(files, chain, texts.key),
    issued: chain.at(-1) ?? leaf,
    notAfter,
    fingerprint: sha256Hex(leaf.raw),
    names: leaf.subjectAltName ?? '',
    covers: (host) => covers(leaf, host),
  };
}

/** Whether a client that dials this host takes a certificate by its names (RFC 9525 §2: a common name is none). */
export function covers(leaf: X509Certificate, host: string): boolean {
  if (leaf.subjectAltName === undefined) return false;
  return (isIP(host) === 0 ? leaf.checkHost(host, { subject: 'never' }) : leaf.checkIP(host)) !== undefined;
}

/** The certificates of a PEM file, in their order. @throws Error that names the setting */
export function chainOf(certFile: string, pem: string): readonly [X509Certificate, ...X509Certificate[]] {
  const [first, ...rest] = certificatesIn(pem).map((block, at) => readCertificate(certFile, block, at));
  if (first === undefined) throw new Error(`GW_TLS_CERT_FILE: ${certFile} holds no certificate (PEM)`);
  return [first, ...rest];
}

function readCertificate(certFile: string, block: string, at: number): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch (error) {
    throw new Error(`GW_TLS_CERT_FILE: certificate ${at + 1} of ${certFile} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function keyOf(keyFile: string, pem: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem))
    throw new Error(
      `GW_TLS_KEY_FILE: ${keyFile} is encrypted, and there is nobody to ask for its passphrase: store it without one, with mode 0600 (openssl pkey -in ${keyFile} -out decrypted.key)`,
    );
  try {
    return createPrivateKey(pem);
  } catch (error) {
    throw new Error(`GW_TLS_KEY_FILE: ${keyFile} holds no private key (PEM): ${messageOf(error)}`, { cause: error });
  }
}

function contextOf({ certFile }: OwnCertificateFiles, chain: readonly X509Certificate[], key: string): SecureContext {
  try {
    // Encoded anew, so that nothing else that stands in the file can leave with it. The minimum is said here, since
    // NODE_OPTIONS could lower that of the runtime.
    return createSecureContext({ cert: chain.map(({ raw }) => certificatePem(raw)).join(''), key, minVersion: 'TLSv1.2' });
  } catch (error) {
    throw new Error(`GW_TLS_CERT_FILE: ${certFile} cannot be used: ${messageOf(error)}`, { cause: error });
  }
}

async function readText(setting: string, file: string): Promise<string> {
  try {
    return Buffer.from(await readRegularFile(file, MAX_BYTES)).toString('latin1');
  } catch (error) {
    throw new Error(`${setting}: ${file} cannot be read (${codeOf(error) || messageOf(error)})`, { cause: error });
  }
}
