import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import type { SecureContext } from 'node:tls';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import {
  judgeOwnCertificate,
  type OwnCertificate,
  type OwnCertificateFiles,
  type OwnCertificateTexts,
  readOwnTexts,
} from './own-certificate.ts';

/** How long before its end a certificate is spoken of: nobody who renews in time gets there. */
const SOON_MS = 7 * 86_400_000;

export interface CertificateInForceOptions {
  readonly files: OwnCertificateFiles;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The certificate that the gateway's own ports show (decision 12.1). A pair that does not load leaves the one before.
 */
export class CertificateInForce {
  readonly #options: CertificateInForceOptions;
  readonly #counts = { loaded: 0, refused: 0 };
  #current: OwnCertificate;
  /** What was read last, so that the same mistake is told once. */
  #seen: string;
  #refusal: string | undefined;
  #failedHandshakes = 0;

  private constructor(options: CertificateInForceOptions, current: OwnCertificate, seen: string) {
    this.#options = options;
    this.#current = current;
    this.#seen = seen;
    this.#tell('the ports speak TLS');
  }

  /** @throws Error in one line that names the setting, the file and what is wrong */
  static async open(options: CertificateInForceOptions): Promise<CertificateInForce> {
    const texts = await readOwnTexts(options.files);
    return new CertificateInForce(options, judgeOwnCertificate(options.files, texts, options.clock.now()), seenOf(texts));
  }

  /** What a connection that begins now is shown. */
  context(): SecureContext {
    return this.#current.context;
  }

  get current(): Pick<OwnCertificate, 'notAfter' | 'fingerprint' | 'names' | 'covers' | 'issued'> {
    return this.#current;
  }

  /** Pairs that were read while running, by what came of it. */
  get counts(): Readonly<{ loaded: number; refused: number }> {
    return this.#counts;
  }

  /** Handshakes that failed: the client does not take the certificate, or speaks no TLS that we do. */
  get failedHandshakes(): number {
    return this.#failedHandshakes;
  }

  onFailure(error: Error): void {
    this.#failedHandshakes++;
    this.#options.log.debug({ reason: error.message }, 'a TLS handshake on a port of the gateway failed');
  }

  /** Where changes show: the folders of both files, and those that links lead to. */
  folders(): readonly string[] {
    const { certFile, keyFile } = this.#options.files;
    return [...new Set([certFile, keyFile].flatMap((file) => [dirname(file), ...realFolder(file)]))];
  }

  /** Reads both files, and takes them if they have changed and can be used. Never rejects. */
  async follow(): Promise<void> {
    const { files, clock, log } = this.#options;
    let seen = '';
    try {
      const texts = await readOwnTexts(files);
      seen = seenOf(texts);
      if (seen === this.#seen) return;
      this.#current = judgeOwnCertificate(files, texts, clock.now());
      this.#refusal = undefined;
      this.#counts.loaded++;
      this.#tell('the certificate of the ports was renewed');
    } catch (error) {
      const reason = messageOf(error);
      if (seen === '') seen = reason;
      if (seen === this.#seen) return;
      this.#refusal = reason;
      this.#counts.refused++;
      log.error({ reason, fingerprint: this.#current.fingerprint }, 'the new certificate of the ports does not load; the one before stays');
    } finally {
      this.#seen = seen;
    }
  }

  /** What an operator should know now, each with a code. */
  warnings(): readonly HealthWarning[] {
    const { notAfter } = this.#current;
    const left = notAfter - this.#options.clock.now();
    const until = timestamp(notAfter);
    return [
      ...(left > SOON_MS
        ? []
        : [
            left > 0
              ? { code: 'certificate_expires_soon', message: `The certificate of the ports expires at ${until}.` }
              : { code: 'certificate_expired', message: `The certificate of the ports expired at ${until}.` },
          ]),
      ...(this.#refusal === undefined
        ? []
        : [
            {
              code: 'certificate_not_loaded',
              message: `The files changed and do not load, so that the certificate before stays: ${this.#refusal}`,
            },
          ]),
    ];
  }

  #tell(message: string): void {
    const { fingerprint, names, notAfter } = this.#current;
    const facts = { fingerprint, names, expires_at: timestamp(notAfter) };
    this.#options.log.info(facts, message);
    if (names === '') this.#options.log.warn(facts, 'the certificate of the ports has no subject alternative name: clients refuse it');
  }
}

function seenOf({ cert, key }: OwnCertificateTexts): string {
  return `${cert}\0${key}`;
}

function realFolder(file: string): readonly string[] {
  try {
    return [dirname(realpathSync(file))];
  } catch {
    // It is not there at the moment.
    return [];
  }
}
