// The local root, the leaves it signs and the TLS contexts made of them. Here and nowhere else a private key of ours is
// held. What may not be here: sockets, and any decision whether a host is intercepted. node-forge writes the ASN.1;
// every key and signature comes from node:crypto (a key made by node-forge stalls the event loop for a third of a
// second).
import type { KeyObject } from 'node:crypto';
import type { SecureContext } from 'node:tls';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Turn } from '../../base/lib/turn.ts';
import { leafProfile, type Subject, subjectOf } from './certificate.ts';
import { ContextCache } from './context-cache.ts';
import { loadRoot, type Root } from './root-chain.ts';
import { replacePublicFile, TRUST_BUNDLE } from './root-files.ts';
import { type RootStatus, statusOf } from './root-status.ts';
import { generateKeys, generateRsaKeys, RootsOnDisk } from './roots-on-disk.ts';
import { trustBundle } from './trust-bundle.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ROOT_WARNING_MS = 30 * DAY_MS;
/** A switch that could not be written is tried again after this long; until then the former root goes on. */
const RETRY_MS = 60_000;
const DEFAULT_MAX_CONTEXTS = 1_000;
/** Of one gateway that are trusted at once, the one that signs included. */
const MAX_ROOTS = 5;

/** Kinds of keys that leaves are made for. */
export type LeafKey = 'ec' | 'rsa';

export interface CertificateAuthorityOptions {
  /** `GW_CA_DIR`; made when it is not there. */
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** TLS contexts kept at most; default 1,000. */
  readonly maxContexts?: number;
}

/**
 * Asked when all is ready and before it counts; what it throws leaves all as it was. `object` is the fingerprint of
 * what is changed.
 */
export type Agreed = (object: string, after: RootStatus) => Promise<void>;

export interface CertificateAuthority {
  /**
   * What clients are to trust: the root, that of a company's chain when the file goes up to it; the one that signs
   * first, then a next one and former ones. PEM; never holds a key.
   */
  readonly rootPem: string;
  /** Of the one that signs. */
  readonly rootDer: Buffer;
  /** Lower-case hex SHA-256 of the DER of the certificate that signs. */
  readonly fingerprint: string;
  /** Milliseconds since the epoch at which the root that signs, or the first of its chain, expires. */
  readonly expiresAt: number;
  /** True when this start made the root. */
  readonly created: boolean;
  /** Path of `ca-bundle.pem`. */
  readonly bundlePath: string;
  /** System roots and ours, for variables that replace the trust store. */
  bundlePem(): string;
  /**
   * The TLS context that answers for one host, made at first use and renewed before its leaf expires. Any number of
   * callers at once wait for one leaf.
   * @param host name or IP literal; folded as decision 3.17 says
   * @param key of the leaf; default EC, which serves all but a few clients. The one of RSA is made when it is first
   * asked for
   * @throws GatewayError `invalid_target` when it is no host
   * @throws CertificateAuthorityError when the root's name constraints leave the host out, and when by the clock of now
   * the root has expired, or is not valid yet
   */
  contextFor(host: string, key?: LeafKey): Promise<SecureContext>;
  status(): RootStatus;
  /**
   * Makes a root that is trusted from now on and signs from `switchAt` on (decision 12.10).
   * @param switchAt milliseconds since the epoch; what has passed means at once
   * @throws GatewayError `conflict` when a next one is there, or the root is not ours to replace; `invalid_request` for
   * a time at which the present one has ended
   * @throws CertificateAuthorityError when the folder cannot be written; all is as before then
   */
  rotate(switchAt: number, agreed: Agreed): Promise<RootStatus>;
  /** Gives the next root up. @throws GatewayError `conflict` when there is none */
  cancelRotation(agreed: Agreed): Promise<RootStatus>;
  /**
   * Stops trusting former roots.
   * @param mayDrop asked first; what it throws leaves all as it was
   * @throws GatewayError `conflict` when there is none
   */
  finishRotation(agreed: Agreed, mayDrop?: () => void): Promise<RootStatus>;
  close(): Promise<void>;
}

/**
 * Opens the root in `dir`, or makes one on the first start, and writes the trust bundle beside it.
 * @throws CertificateAuthorityError when what is there cannot be used; nothing is changed then
 */
export async function openCertificateAuthority(options: CertificateAuthorityOptions): Promise<CertificateAuthority> {
  const { dir, clock, log } = options;
  const { roots, created } = await RootsOnDisk.open(dir, clock);
  const root = loadRoot(dir, roots.signing, clock.now());
  for (const warning of root.warnings) log.warn({ dir }, warning);
  const left = root.issuer.validity.notAfter - clock.now();
  if (left < ROOT_WARNING_MS) {
    log.warn(
      { dir, expires_at: timestamp(root.issuer.validity.notAfter) },
      'the root certificate expires soon: plan a new one (gw ca rotate)',
    );
  }
  const leafKeys = await generateKeys();
  const authority = new LocalAuthority(options, roots, {
    root,
    created,
    leafKey: leafKeys.privateKey,
    leafSubject: subjectOf(leafKeys.publicKey),
  });
  await authority.ready();
  return authority;
}

interface Opened {
  readonly root: Root;
  readonly created: boolean;
  readonly leafKey: KeyObject;
  readonly leafSubject: Subject;
}

class LocalAuthority implements CertificateAuthority {
  readonly created: boolean;
  readonly #options: CertificateAuthorityOptions;
  readonly #roots: RootsOnDisk;
  readonly #opened: Opened;
  #root: Root;
  #contexts: ContextCache;
  /** Most gateways never meet a client that needs them. */
  #rsaKeys: ReturnType<typeof generateRsaKeys> | undefined;
  #rsaContexts: ContextCache | undefined;
  #bundle = '';
  #bundlePath = '';
  /** When the next root is to sign; looked at for each handshake. */
  #switchAt = Number.POSITIVE_INFINITY;
  /** Changes come one after the other. */
  readonly #turn = new Turn();
  /** Milliseconds until the clock is looked at again; undefined: nothing is to come. */
  #lookInMs: number | undefined;
  readonly #job: RunningJob;
  /** The file of trusted roots is older than what is trusted. */
  #isUnpublished = false;

  constructor(options: CertificateAuthorityOptions, roots: RootsOnDisk, opened: Opened) {
    this.created = opened.created;
    this.#options = options;
    this.#roots = roots;
    this.#opened = opened;
    this.#root = opened.root;
    this.#contexts = this.#contextsOf(opened.root);
    this.#job = every(options, {
      everyMs: () => this.#lookInMs,
      run: () => this.#turn.take(() => this.#look()),
      failed: 'the roots could not be looked at',
    });
  }

  get rootPem(): string {
    const { next, former } = this.#roots;
    return [this.#root.anchorPem, ...(next ? [next.certificate] : []), ...former].map((pem) => `${pem.trim()}\n`).join('');
  }
  get rootDer(): Buffer {
    return this.#root.anchorDer;
  }
  get fingerprint(): string {
    return this.#root.fingerprint;
  }
  get expiresAt(): number {
    return this.#root.issuer.validity.notAfter;
  }
  get bundlePath(): string {
    return this.#bundlePath;
  }
  bundlePem(): string {
    return this.#bundle;
  }

  contextFor(host: string, key: LeafKey = 'ec'): Promise<SecureContext> {
    if (this.#options.clock.now() < this.#switchAt) return this.#contextOf(host, key);
    return this.#turn.take(() => this.#switchWhenDue()).then(() => this.#contextOf(host, key));
  }

  #contextOf(host: string, key: LeafKey): Promise<SecureContext> {
    return key === 'ec' ? this.#contexts.get(host) : this.#rsaContextOf(host);
  }

  async #rsaContextOf(host: string): Promise<SecureContext> {
    this.#rsaKeys ??= generateRsaKeys().catch((error: unknown) => {
      this.#rsaKeys = undefined;
      throw error;
    });
    const { publicKey, privateKey } = await this.#rsaKeys;
    this.#rsaContexts ??= this.#contextsOf(this.#root, privateKey, subjectOf(publicKey));
    return await this.#rsaContexts.get(host);
  }

  status(): RootStatus {
    return statusOf(this.#root.anchorPem, this.#roots);
  }

  /** Before anybody is served. */
  async ready(): Promise<void> {
    await this.#publish();
    // The first one takes ten times as long as any later one, which no call should wait for; and a root that cannot
    // sign shows now.
    await this.#contexts.warmUp();
    this.#follow();
  }

  rotate(switchAt: number, agreed: Agreed): Promise<RootStatus> {
    return this.#turn.take(async () => {
      const roots = this.#roots;
      if (!roots.isOwn)
        throw conflict(
          'The root was not made by this gateway, so that its owner replaces it: put the new pair into GW_CA_DIR and start again.',
        );
      if (roots.next !== undefined) throw conflict(`A next root signs from ${timestamp(roots.next.switchAt)} on; cancel that first.`);
      if (roots.former.length + 2 > MAX_ROOTS) throw conflict(`${MAX_ROOTS} roots are trusted already; finish the last rotation first.`);
      if (switchAt >= this.expiresAt)
        throw new GatewayError(
          'invalid_request',
          `The root that signs ends at ${timestamp(this.expiresAt)}: the next one is to sign before that.`,
        );
      const { clock } = this.#options;
      const at = Math.max(switchAt, clock.now());
      await roots.plan(at, (fingerprint) => agreed(fingerprint, { ...this.status(), switch_at: timestamp(at) }));
      await this.#switchWhenDue(at);
      return this.#changed('a next root was made: clients are to trust it before it signs');
    });
  }

  cancelRotation(agreed: Agreed): Promise<RootStatus> {
    return this.#turn.take(async () => {
      const { next } = this.#roots;
      if (next === undefined) throw conflict('There is no next root.');
      await this.#roots.cancel(() => agreed(this.fingerprint, { ...this.status(), switch_at: null }));
      return this.#changed('the next root was given up');
    });
  }

  finishRotation(agreed: Agreed, mayDrop?: () => void): Promise<RootStatus> {
    return this.#turn.take(async () => {
      if (this.#roots.former.length === 0)
        throw conflict('There is no former root; one that is to be replaced is former once the next one signs.');
      mayDrop?.();
      const { roots, ...rest } = this.status();
      await this.#roots.finish(() => agreed(this.fingerprint, { ...rest, roots: roots.filter(({ role }) => role !== 'former') }));
      return this.#changed('former roots are not trusted any more');
    });
  }

  async close(): Promise<void> {
    await this.#job.stop();
    await this.#turn.over();
  }

  async #changed(said: string): Promise<RootStatus> {
    this.#follow();
    await this.#publishOrLater();
    const { next, former } = this.#roots;
    this.#options.log.info(
      { fingerprint: this.fingerprint, ...(next && { switch_at: timestamp(next.switchAt) }), former: former.length },
      said,
    );
    return this.status();
  }

  /** Never rejects: what cannot be written leaves the former root, which all clients trust, to sign. */
  async #switchWhenDue(at = this.#switchAt): Promise<void> {
    const { clock, log, dir } = this.#options;
    if (clock.now() < at || this.#roots.next === undefined) return;
    try {
      await this.#roots.switchOver();
      this.#root = loadRoot(dir, this.#roots.signing, clock.now());
      this.#contexts = this.#contextsOf(this.#root);
      this.#rsaContexts = undefined;
      await this.#contexts.warmUp();
      this.#follow();
      await this.#publishOrLater();
      log.info({ fingerprint: this.fingerprint, expires_at: timestamp(this.expiresAt) }, 'the next root signs from now on');
    } catch (error) {
      log.error({ err: error }, 'the next root cannot take over yet; it is tried again within a minute');
      this.#switchAt = clock.now() + RETRY_MS;
      this.#later(RETRY_MS);
    }
  }

  async #publish(): Promise<void> {
    const { dir, clock } = this.#options;
    this.#bundle = await trustBundle(this.rootPem);
    this.#bundlePath = await replacePublicFile(dir, TRUST_BUNDLE, this.#bundle, uuidv7(clock.now()));
  }

  /** The change is made and served; the file beside the roots follows once there is room for it. Never rejects. */
  async #publishOrLater(): Promise<void> {
    try {
      await this.#publish();
      this.#isUnpublished = false;
    } catch (error) {
      this.#isUnpublished = true;
      this.#options.log.error({ err: error }, 'the file of trusted roots cannot be written; it is tried again within a minute');
      this.#later(RETRY_MS);
    }
  }

  /** Looks at the clock again while there is something to come: the switch, or the end of a former root. */
  #follow(): void {
    const { next, former } = this.#roots;
    this.#switchAt = next?.switchAt ?? Number.POSITIVE_INFINITY;
    if (next === undefined && former.length === 0) this.#later(undefined);
    else this.#later(Math.min(HOUR_MS, this.#switchAt - this.#options.clock.now()));
  }

  #later(ms: number | undefined): void {
    this.#lookInMs = ms;
    this.#job.rearm();
  }

  async #look(): Promise<void> {
    const due = this.#options.clock.now() >= this.#switchAt;
    if (due) {
      await this.#switchWhenDue();
      return;
    }
    const before = this.#roots.former.length;
    await this.#roots
      .dropExpired()
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'a root that has ended cannot be taken out'));
    this.#follow();
    if (this.#isUnpublished || this.#roots.former.length < before) await this.#publishOrLater();
  }

  #contextsOf(root: Root, leafKey = this.#opened.leafKey, subject = this.#opened.leafSubject): ContextCache {
    const { clock, maxContexts = DEFAULT_MAX_CONTEXTS } = this.#options;
    return new ContextCache({
      profile: leafProfile(root.issuer, subject, 'serverAuth', leafKey.asymmetricKeyType === 'rsa' ? 'rsa' : 'ec'),
      leafKey,
      chainPem: root.chainPem,
      fingerprint: root.fingerprint,
      clock,
      max: maxContexts,
    });
  }
}

function conflict(message: string): GatewayError {
  return new GatewayError('conflict', message);
}
