import { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  checkServerIdentity,
  connect,
  createSecureContext,
  type PeerCertificate,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { formatAuthority } from '../../base/lib/host.ts';
import { Lru } from '../../base/lib/lru.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { CONNECT_TIMEOUT_MS } from './dialer.ts';
import { NO_NAMES, timeoutError, tlsError } from './upstream-error.ts';

const MAX_SESSIONS = 512;
const ALPN = ['http/1.1'];
/** A record with nothing but an alert. */
const ALERT_BYTES = 7;

/**
 * Wraps upstream sockets in TLS: roots of the runtime and of the operator, name checked, sessions kept for resumption.
 */
export class TlsClient {
  readonly #clock: Clock;
  readonly #context: SecureContext;
  readonly #sessions = new Lru<string, Buffer>({ max: MAX_SESSIONS });

  /**
   * @param extraRoots PEM text, trusted in addition (`GW_UPSTREAM_CA_FILE`)
   * @throws Error when `extraRoots` holds no certificate, or one that cannot be read
   */
  constructor(clock: Clock, extraRoots: string | undefined) {
    this.#clock = clock;
    this.#context = createSecureContext({
      minVersion: 'TLSv1.2',
      ...(extraRoots === undefined ? {} : { ca: [...rootCertificates, ...certificatesOf(extraRoots)] }),
    });
  }

  /**
   * @param authority whose name the certificate must have, and which is sent as SNI unless it is an address literal
   * @param scope keeps sessions of different ways to the same name apart
   * @param protocols offered by ALPN; what was chosen is the socket's `alpnProtocol`
   * @throws GatewayError `upstream_tls`, `upstream_timeout`
   */
  secure(socket: Socket, authority: Authority, scope: string, protocols: readonly string[] = ALPN): Promise<TLSSocket> {
    const { host } = authority;
    const session = this.#sessions.get(scope);
    const readBefore = socket.bytesRead;
    return new Promise((resolve, reject) => {
      const tls = connect({
        socket,
        host,
        ...(isIP(host) === 0 ? { servername: host } : {}),
        secureContext: this.#context,
        // Said here, so that NODE_TLS_REJECT_UNAUTHORIZED, which a shell may hold for some other program, opens
        // nothing.
        rejectUnauthorized: true,
        checkServerIdentity: checkNames,
        ALPNProtocols: [...protocols],
        ...(session === undefined ? {} : { session }),
      });
      // A session is resumed without another look at the name, so only one whose certificate was accepted is kept.
      let verified = false;
      let early: Buffer | undefined;
      const cancel = this.#clock.after(CONNECT_TIMEOUT_MS, () => {
        tls.destroy();
        reject(timeoutError(authority, `did not finish the TLS handshake within ${CONNECT_TIMEOUT_MS / 1000} seconds`));
      });
      tls.on('session', (fresh) => {
        if (verified) this.#sessions.set(scope, fresh);
        else early = fresh;
      });
      const onError = (error: unknown): void => {
        cancel();
        const answered = socket.bytesRead - readBefore > ALERT_BYTES;
        this.#sessions.delete(scope);
        tls.destroy();
        reject(tlsError(authority, error, answered));
      };
      tls.once('error', onError);
      tls.once('secureConnect', () => {
        cancel();
        verified = true;
        if (early !== undefined) this.#sessions.set(scope, early);
        tls.off('error', onError);
        // Whoever takes the socket listens a moment later.
        tls.on('error', () => undefined);
        resolve(tls);
      });
    });
  }

  /** Key of the sessions of one authority; the operator's own way there is apart from the guarded one. */
  static scopeOf(authority: Authority, operatorOwn: boolean): string {
    return operatorOwn ? `own ${formatAuthority(authority)}` : formatAuthority(authority);
  }
}

/**
 * RFC 9525 §2: a common name is no host name. node:tls falls back to it where a certificate has no other, and clients
 * of today would refuse that one.
 */
function checkNames(host: string, certificate: PeerCertificate): Error | undefined {
  if (certificate.subjectaltname !== undefined) return checkServerIdentity(host, certificate);
  return Object.assign(new Error('The certificate has no subject alternative name.'), { code: NO_NAMES });
}

/** OpenSSL passes over what it cannot read; a root that the operator gave must not get lost like that. */
function certificatesOf(pem: string): string[] {
  const blocks = certificatesIn(pem);
  if (blocks.length === 0) throw new Error('no PEM certificate in it');
  return blocks.map((block) => new X509Certificate(block).toString());
}
