import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { HealthWarning } from '../base/model/not-ready.ts';
import type { OrgState, Versions } from '../control-plane/proto/messages.ts';
import type { Protocol } from '../control-plane/proto/protocol.ts';
import { CertificateRenewal } from './certificate-renewal.ts';
import { CheckIns } from './check-ins.ts';
import type { ContactBook } from './contact-book.ts';
import { ControlPlaneChannel } from './control-plane-channel.ts';
import { HandedOnWrites } from './handed-on-writes.ts';
import type { HashSubmission } from './hash-submission.ts';
import type { Channel, Contact, ControlPlaneLink, RemoteName, RemoteResource } from './link-ports.ts';
import type { NodeIdentity } from './node-identity.ts';
import { RecordProofs } from './record-proofs.ts';
import { RemoteFetches } from './remote-fetches.ts';
import type { RemoteKeys } from './remote-keys.ts';

/** A request that finds the channel silent for longer asks for news (decision 13.8). */
const FRESH_MS = 1_000;
/** How long a start waits for the first check-in and what it leads to. */
const FIRST_CONTACT_MS = 3_000;
const RENEWAL_WARNING_MS = 7 * 86_400_000;

export interface LinkOptions {
  readonly protocol: Protocol;
  /** `host:port`. */
  readonly address: string;
  readonly identity: NodeIdentity;
  /** Already open, and closed with the link. */
  readonly contact: ContactBook;
  readonly resources: readonly RemoteResource[];
  /** By which roots are believed. */
  readonly keys: RemoteKeys;
  /** Already open, and closed with the link. */
  readonly submission: HashSubmission;
  /** `GW_KEY_DIR` */
  readonly keyDir: string;
  /** `GW_CHECKIN_IDLE_THRESHOLD`, milliseconds. */
  readonly idleMs: number;
  /** The bundle in force, as it was signed. */
  readonly signedBundle?: () => { readonly sequence: number; readonly kid: string } | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The gateway's way to its control plane: one channel for as long as it lives, with everything that watches over it.
 */
export class GatewayLink implements ControlPlaneLink {
  readonly submission: HashSubmission;
  readonly proofs: RecordProofs;
  readonly writes: HandedOnWrites;
  readonly #options: LinkOptions;
  readonly #contact: ContactBook;
  readonly #channel: ControlPlaneChannel;
  readonly #fetches: RemoteFetches;
  readonly #checkIns: CheckIns;
  readonly #renewal: CertificateRenewal;
  /** The highest turn whose answer was taken in. */
  #heardTurn = 0;
  #expirySaid = false;

  constructor(options: LinkOptions) {
    const { protocol, address, identity, contact, keys, clock, log } = options;
    this.#options = options;
    this.#contact = contact;
    this.#fetches = new RemoteFetches(options.resources, clock, log);
    this.#channel = new ControlPlaneChannel({
      protocol,
      address,
      identity,
      clock,
      listener: { heard: (org, turn) => this.#heard(org, turn), broke: () => this.checkInSoon() },
    });
    const fetches = this.#fetches;
    const { idleMs, signedBundle } = options;
    this.#checkIns = new CheckIns({ channel: this.#channel, contact, fetches, signedBundle, clock, log, idleMs });
    this.writes = new HandedOnWrites({ channel: this.#channel, contact, bringIn: (names) => this.bringIn(names), clock });
    this.submission = options.submission;
    const { orgId } = identity;
    this.proofs = new RecordProofs({ channel: this.#channel, submission: this.submission, keys, orgId, clock, log });
    const renewal = { channel: this.#channel, dir: options.keyDir, identity, signingCa: keys.signingCa, clock, log };
    this.#renewal = new CertificateRenewal(renewal);
    keys.trustBy((cas) => this.#renewal.trust(cas));
  }

  get channel(): Channel {
    return this.#channel;
  }

  get contact(): Contact {
    return this.#contact;
  }

  /** True when nobody is to be served: the grace period is over, and the org is `strict`. */
  get barsAll(): boolean {
    return this.#contact.posture === 'strict';
  }

  /** Milliseconds; 0 while connected. */
  get offlineMs(): number {
    return this.#contact.offlineMs;
  }

  /** Milliseconds since the epoch. */
  get certificateExpiresAt(): number {
    return this.#renewal.identity.notAfter;
  }

  /** By their result. */
  get checkIns(): Readonly<Record<string, number>> {
    return this.#checkIns.counts;
  }

  fetchCounts(): readonly (readonly [resource: string, result: string, count: number])[] {
    return this.#fetches.counts();
  }

  warnings(): readonly HealthWarning[] {
    const { clock } = this.#options;
    const left = this.certificateExpiresAt - clock.now();
    const warnings: HealthWarning[] = this.#fetches.faults.map(({ resource, message }) => ({
      code: 'cp_fetch_failed',
      message: `${resource}: the one before stays in force: ${message}`,
    }));
    if (this.#contact.revoked)
      warnings.push({ code: 'cp_node_revoked', message: 'The control plane has revoked the certificate of this node: enrol it anew.' });
    if (left <= 0) warnings.push({ code: 'cp_certificate_expired', message: this.#expired() });
    else if (left < RENEWAL_WARNING_MS)
      warnings.push({
        code: 'cp_certificate_expires',
        message: `The certificate of this node ends at ${timestamp(this.certificateExpiresAt)} and could not be renewed: ${this.#renewal.fault ?? 'there was no contact'}.`,
      });
    return warnings;
  }

  /** Resolves when the first check-in and what it led to have ended, well or not, after three seconds at the latest. */
  async start(): Promise<void> {
    const { clock } = this.#options;
    // What could not be erased before the last stop is not served from, though nobody may say again that it was
    // revoked.
    if (this.#contact.revoked) await this.#fetches.erase();
    this.#renewal.start();
    this.submission.start(this.#channel);
    let cancel = (): void => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(FIRST_CONTACT_MS, resolve);
    });
    await Promise.race([this.#checkIns.start(), late]);
    cancel();
  }

  checkInSoon(): void {
    this.#checkIns.soon();
  }

  /** Of what is in force. */
  versions(): Versions {
    return this.#fetches.versions();
  }

  /** Fetches these at once, and tells the control plane. Never rejects. @returns those that could not be fetched */
  async bringIn(names: readonly RemoteName[]): Promise<readonly RemoteName[]> {
    const missing = await this.#fetches.now(new Set(names), this.#channel);
    this.#checkIns.soon();
    return missing;
  }

  /** A request has come: news are asked for where there were none for a second. While offline the retries do that. */
  awaken(): void {
    if (this.#contact.status === 'connected' && this.#options.clock.monotonic() - this.#channel.carriedAt > FRESH_MS) this.#checkIns.soon();
  }

  async close(): Promise<void> {
    await this.submission.close();
    // What is under way ends with the connection.
    this.#channel.close();
    await this.#checkIns.close();
    await this.#renewal.close();
    await this.#contact.close();
  }

  async #heard(org: OrgState | null, turn: number): Promise<void> {
    if (this.#contact.status === 'offline') this.submission.flush();
    const isLate = turn < this.#heardTurn;
    const isNews = org !== null && org.status !== this.#contact.org?.status;
    if (isLate) {
      // An answer that was overtaken may be the older one: the next check-in says which holds.
      await this.#contact.heard(null);
      if (isNews) this.#checkIns.soon();
      return;
    }
    this.#heardTurn = turn;
    await this.#contact.heard(org);
    this.#sayExpiry();
    if (this.#fetches.heed(org?.stale ?? null, turn) && this.#fetches.dueIn === 0) this.#checkIns.soon();
  }

  #sayExpiry(): void {
    if (this.#expirySaid || this.certificateExpiresAt > this.#options.clock.now()) return;
    this.#expirySaid = true;
    this.#options.log.error({}, this.#expired());
  }

  #expired(): string {
    const { orgId } = this.#renewal.identity;
    return `The certificate of this node ended at ${timestamp(this.certificateExpiresAt)}: nothing reaches the control plane until it is enrolled anew. Make a bootstrap token (gw control-plane token create ${orgId}), set GW_BOOTSTRAP_TOKEN to it and start again.`;
  }
}
