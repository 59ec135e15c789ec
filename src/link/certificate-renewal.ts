import { randomInt, X509Certificate } from 'node:crypto';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { messageOf } from '../base/lib/thrown.ts';
import { requestCertificate } from './certificate-request.ts';
import type { ControlPlaneChannel } from './control-plane-channel.ts';
import { identityFrom } from './enrol.ts';
import { writeNodeFile } from './node-file.ts';
import type { NodeIdentity } from './node-identity.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BEGINS_BEFORE_MS = 14 * DAY_MS;
/** Timers cannot be longer, and a time of day that is set is noticed within this. */
const STEP_MS = 6 * HOUR_MS;

export interface CertificateRenewalOptions {
  readonly channel: Pick<ControlPlaneChannel, 'call' | 'use'>;
  /** `GW_KEY_DIR` */
  readonly dir: string;
  readonly identity: NodeIdentity;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Between the end of a try, whatever came of it, and the next one: a clock that is ahead makes every certificate look as if it ended soon. */
const LEAST_BETWEEN_MS = HOUR_MS;

/** Has a new key signed from 14 days before the certificate ends, at a moment of that day left to chance, then every hour until it succeeds (decision 13.7). */
export class CertificateRenewal {
  readonly #options: CertificateRenewalOptions;
  #identity: NodeIdentity;
  /** Milliseconds since the epoch. */
  #dueAt: number;
  /** Monotonic milliseconds: none is asked for earlier, whatever the time of day is. */
  #notBefore = Number.NEGATIVE_INFINITY;
  #fault: string | undefined;
  #renewing: Promise<void> | undefined;
  #cancel: () => void = () => undefined;
  #closed = false;

  constructor(options: CertificateRenewalOptions) {
    this.#options = options;
    this.#identity = options.identity;
    this.#dueAt = dueAt(options.identity);
  }

  get identity(): NodeIdentity {
    return this.#identity;
  }

  /** What the last try failed at. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Looks whether it is time. */
  start(): void {
    this.#later();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#renewing;
  }

  #later(): void {
    if (this.#closed) return;
    const { clock } = this.#options;
    const wait = Math.max(0, this.#dueAt - clock.now(), this.#notBefore - clock.monotonic());
    this.#cancel = clock.after(Math.min(STEP_MS, wait), () => {
      if (clock.now() < this.#dueAt || clock.monotonic() < this.#notBefore) this.#later();
      else {
        this.#renewing = this.#renew();
        void this.#renewing.then(() => {
          this.#notBefore = clock.monotonic() + LEAST_BETWEEN_MS;
          this.#later();
        });
      }
    });
  }

  /** Never rejects. */
  async #renew(): Promise<void> {
    const { channel, dir, clock, log } = this.#options;
    const { orgId, nodeId, caPem } = this.#identity;
    try {
      const request = await requestCertificate(orgId, nodeId);
      const answer = await channel.call('Renew', { csr: request.csr });
      const next = identityFrom(answer, request, { ca: new X509Certificate(caPem), orgId, nodeId, clock });
      // Before it is used: a gateway that ends here has the one or the other, and both count.
      await writeNodeFile(dir, next);
      channel.use(next);
      this.#identity = next;
      this.#dueAt = dueAt(next);
      this.#fault = undefined;
      const facts = { expires_at: timestamp(next.notAfter) };
      log.info(facts, 'the certificate of this node was renewed');
      if (this.#dueAt <= clock.now())
        log.warn(facts, 'the certificate that has just been issued is to be renewed already: is the clock of this machine ahead?');
    } catch (error) {
      this.#fault = messageOf(error);
      this.#dueAt = clock.now() + HOUR_MS;
      log.warn(
        { err: error, expires_at: timestamp(this.#identity.notAfter) },
        'the certificate of this node could not be renewed; it is tried again in an hour',
      );
    }
  }
}

/** A certificate of less than 28 days is renewed from the middle of its life on. */
function dueAt({ notBefore, notAfter }: NodeIdentity): number {
  const life = notAfter - notBefore;
  const before = Math.min(BEGINS_BEFORE_MS, life / 2);
  return notAfter - before + randomInt(Math.max(1, Math.floor(Math.min(DAY_MS, before / 14))));
}
