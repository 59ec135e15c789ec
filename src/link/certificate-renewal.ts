import { randomInt, X509Certificate } from 'node:crypto';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { every, type RunningJob } from '../base/lib/every.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { Turn } from '../base/lib/turn.ts';
import { requestCertificate } from './certificate-request.ts';
import type { ControlPlaneChannel } from './control-plane-channel.ts';
import { identityFrom } from './enrol.ts';
import { writeNodeFile } from './node-file.ts';
import { authoritiesOf, formerAfter, type NodeIdentity, withAuthorities } from './node-identity.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BEGINS_BEFORE_MS = 14 * DAY_MS;
/** A time of day that is set is noticed within this. */
const STEP_MS = 6 * HOUR_MS;

export interface CertificateRenewalOptions {
  readonly channel: Pick<ControlPlaneChannel, 'call' | 'use'>;
  /** `GW_KEY_DIR` */
  readonly dir: string;
  readonly identity: NodeIdentity;
  /**
   * The CA that signs certificates of nodes, as this node has heard last, DER: a process before this one may have ended
   * between hearing of it and the renewal. Undefined: it has heard of none.
   */
  readonly signingCa?: Uint8Array | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Between the end of a try, whatever came of it, and the next one: a clock that is ahead makes every certificate look
 * as if it ended soon.
 */
const LEAST_BETWEEN_MS = HOUR_MS;

/**
 * Has a new key signed from 14 days before the certificate ends, at a moment of that day left to chance, then every
 * hour until it succeeds (decision 13.7).
 */
export class CertificateRenewal {
  readonly #options: CertificateRenewalOptions;
  #identity: NodeIdentity;
  /** Milliseconds since the epoch. */
  #dueAt: number;
  /** Monotonic milliseconds: none is asked for earlier, whatever the time of day is. */
  #notBefore = Number.NEGATIVE_INFINITY;
  #fault: string | undefined;
  /** What changes the file of the node, one after the other. */
  readonly #turn = new Turn();
  #job: RunningJob | undefined;

  constructor(options: CertificateRenewalOptions) {
    this.#options = options;
    this.#identity = options.identity;
    this.#dueAt = dueAt(options.identity);
    const { signingCa } = options;
    const isTrusted =
      signingCa !== undefined && authoritiesOf(options.identity).some((one) => new X509Certificate(one).raw.equals(signingCa));
    if (isTrusted) this.#followTo(signingCa);
  }

  get identity(): NodeIdentity {
    return this.#identity;
  }

  /** What the last try failed at. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /**
   * The control plane is known by these CAs from now on; the first one signs certificates of nodes. A certificate of
   * another one is renewed within the hour, so that the former CA can go.
   * @param cas DER; none: as they were
   * @throws Error when the folder cannot be written
   */
  trust(cas: readonly Uint8Array[]): Promise<void> {
    const [signs] = cas;
    if (signs === undefined) return Promise.resolve();
    return this.#turn.take(async () => {
      const { channel, dir, log } = this.#options;
      const next = withAuthorities(this.#identity, cas);
      if (next.caPem !== this.#identity.caPem) {
        await writeNodeFile(dir, next);
        channel.use(next);
        this.#identity = next;
        log.info({ cas: authoritiesOf(next).length }, 'the CAs of the control plane are others now');
      }
      this.#followTo(signs);
    });
  }

  /** A certificate of another CA than the one that signs now is renewed within the hour. @param signs DER */
  #followTo(signs: Uint8Array): void {
    const [issuer = ''] = authoritiesOf(this.#identity);
    if (new X509Certificate(issuer).raw.equals(signs)) return;
    this.#dueAt = Math.min(this.#dueAt, this.#options.clock.now() + randomInt(HOUR_MS));
    this.#job?.rearm();
  }

  /** Looks whether it is time. */
  start(): void {
    this.#job ??= every(this.#options, {
      everyMs: () => Math.min(STEP_MS, this.#waitMs()),
      run: () => (this.#waitMs() > 0 ? undefined : this.#turn.take(() => this.#renew())),
      failed: 'the certificate of this node could not be renewed',
    });
  }

  async close(): Promise<void> {
    await this.#job?.stop();
  }

  #waitMs(): number {
    const { clock } = this.#options;
    return Math.max(0, this.#dueAt - clock.now(), this.#notBefore - clock.monotonic());
  }

  /** Never rejects. */
  async #renew(): Promise<void> {
    const { channel, dir, clock, log } = this.#options;
    const { orgId, nodeId, caPem } = this.#identity;
    try {
      const request = await requestCertificate(orgId, nodeId);
      const answer = await channel.call('Renew', { csr: request.csr });
      const cas = authoritiesOf({ caPem }).map((one) => new X509Certificate(one));
      const made = identityFrom(answer, request, { cas, orgId, nodeId, clock });
      const next = { ...made, formerCas: formerAfter(this.#identity, made) };
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
    this.#notBefore = clock.monotonic() + LEAST_BETWEEN_MS;
  }
}

/** A certificate of less than 28 days is renewed from the middle of its life on. */
function dueAt({ notBefore, notAfter }: NodeIdentity): number {
  const life = notAfter - notBefore;
  const before = Math.min(BEGINS_BEFORE_MS, life / 2);
  return notAfter - before + randomInt(Math.max(1, Math.floor(Math.min(DAY_MS, before / 14))));
}
