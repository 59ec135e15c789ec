import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { connect, type DetailedPeerCertificate } from 'node:tls';
import type { Clock } from '../base/lib/clock.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import { certificatesIn } from '../base/lib/pem.ts';
import type { Authority } from '../base/model/arrival.ts';
import { EnrolmentError } from './enrolment-error.ts';

const MAX_CHAIN = 10;

/** SHA-256 of the DER. */
export function fingerprintOf(certificate: Uint8Array): Buffer {
  return createHash('sha256').update(certificate).digest();
}

/**
 * Of `GW_CP_CA_FILE`: several while one CA follows another.
 * @throws Error when the file cannot be read or holds no certificate
 */
export async function certificatesOfFile(file: string): Promise<readonly X509Certificate[]> {
  const bytes = await readFile(file);
  const found = certificatesIn(bytes.toString('latin1'));
  return found.length === 0 ? [new X509Certificate(bytes)] : found.map((one) => new X509Certificate(one));
}

/**
 * The certificates that a server shows, its own first. Nothing is believed and nothing is said to it: who takes one of
 * them for the CA must know its fingerprint.
 * @throws EnrolmentError `unreachable`
 */
export function shownChain({ host, port }: Authority, clock: Clock, timeoutMs: number): Promise<readonly X509Certificate[]> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      rejectUnauthorized: false,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['h2'],
    });
    const fail = (why: string, cause?: unknown) => {
      cancel();
      socket.destroy();
      reject(new EnrolmentError('unreachable', why, { cause }));
    };
    const cancel = clock.after(timeoutMs, () => fail(`no answer in ${timeoutMs / 1_000} s`));
    socket.once('error', (error) => fail(messageOf(error), error));
    socket.once('secureConnect', () => {
      cancel();
      const chain = chainOf(socket.getPeerCertificate(true));
      socket.destroy();
      resolve(chain);
    });
  });
}

/** Node links a root to itself, and leaves the issuer out where the server has not shown it. */
function chainOf(own: DetailedPeerCertificate): readonly X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next: DetailedPeerCertificate | undefined = own;
  while (next?.raw !== undefined && chain.length < MAX_CHAIN) {
    chain.push(new X509Certificate(next.raw));
    next = next.issuerCertificate === next ? undefined : next.issuerCertificate;
  }
  return chain;
}
