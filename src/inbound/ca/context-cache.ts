import type { KeyObject } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { Lru } from '../../base/lib/lru.ts';
import { certificatePem, issueLeaf, type LeafProfile, type Validity } from './certificate.ts';
import { CertificateAuthorityError } from './root-files.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/**
 * 45 days in all, below the 47 that clients will enforce (CA/Browser Forum SC-081v3); one of them lies in the past for
 * clocks that are behind.
 */
const LEAF_LIFE_MS = 45 * DAY_MS;
const BACKDATED_MS = DAY_MS;
/** A context is made anew this long before its leaf expires, for clocks that are ahead. */
const RENEW_EARLY_MS = 7 * DAY_MS;

export interface ContextCacheOptions {
  readonly profile: LeafProfile;
  readonly leafKey: KeyObject;
  /** Sent behind each leaf. */
  readonly chainPem: string;
  readonly fingerprint: string;
  readonly clock: Clock;
  readonly max: number;
}

interface CachedContext {
  /** Settled; kept as a promise so that a hit allocates nothing. */
  readonly context: Promise<SecureContext>;
  /** Of its leaf: while the clock is before that it was made by a clock that was ahead, and clients would refuse it. */
  readonly notBefore: number;
  readonly renewAt: number;
}

/** Contexts by root and host: bounded, single-flight, renewed early. */
export class ContextCache {
  readonly #options: ContextCacheOptions;
  readonly #contexts: Lru<string, CachedContext>;
  readonly #pending = new Map<string, Promise<SecureContext>>();
  readonly #leafKeyPem: string;
  /** For clients that may know DHE alone; OpenSSL then takes the groups that fit the key (RFC 7919). */
  readonly #isRsa: boolean;
  /** Leaves are made one after the other, so that many new hosts at once cannot hold the event loop. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: ContextCacheOptions) {
    this.#options = options;
    this.#contexts = new Lru({ max: options.max });
    this.#isRsa = options.leafKey.asymmetricKeyType === 'rsa';
    const type = this.#isRsa ? 'pkcs8' : 'sec1';
    this.#leafKeyPem = options.leafKey.export({ type, format: 'pem' }).toString();
  }

  get(host: string): Promise<SecureContext> {
    const folded = canonicalHost(host);
    if (folded === undefined) return Promise.reject(new GatewayError('invalid_target', 'No certificate can be made for this host.'));
    const key = `${this.#options.fingerprint}/${folded}`;
    const cached = this.#contexts.get(key);
    const now = this.#options.clock.now();
    if (cached !== undefined && cached.notBefore <= now && now < cached.renewAt) return cached.context;
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    const made = this.#enqueue(key, folded);
    this.#pending.set(key, made);
    return made;
  }

  #enqueue(key: string, host: string): Promise<SecureContext> {
    const made = this.#queue.then(() => this.#make(key, host)).finally(() => this.#pending.delete(key));
    this.#queue = made.catch(() => undefined);
    return made;
  }

  /** Makes a context that nobody is given. */
  async warmUp(): Promise<void> {
    await this.#issue('localhost', this.#options.clock.now());
  }

  async #make(key: string, host: string): Promise<SecureContext> {
    const { profile, clock } = this.#options;
    if (!profile.issuer.permits(host))
      throw new CertificateAuthorityError(`the name constraints of the root do not let it sign for ${host}`);
    const now = clock.now();
    const { context, notBefore, notAfter } = await this.#issue(host, now);
    this.#contexts.set(key, { context: Promise.resolve(context), notBefore, renewAt: renewalOf(notAfter, now) });
    return context;
  }

  async #issue(host: string, now: number): Promise<Validity & { readonly context: SecureContext }> {
    const { profile, chainPem } = this.#options;
    const root = profile.issuer.validity;
    if (root.notAfter <= now) throw new CertificateAuthorityError(`the root certificate expired at ${timestamp(root.notAfter)}`);
    if (root.notBefore > now)
      throw new CertificateAuthorityError(`the root certificate is not valid before ${timestamp(root.notBefore)}; is the clock right?`);
    const notBefore = Math.max(wholeSeconds(now - BACKDATED_MS), root.notBefore);
    const notAfter = Math.min(notBefore + LEAF_LIFE_MS, root.notAfter);
    const leaf = await issueLeaf(profile, host, { notBefore, notAfter });
    // Two thirds of the whole are OpenSSL reading key and certificate from PEM; Node has no way to hand over what is
    // parsed already. An empty `ca`, or every context would hold all of Node's roots: clients show no certificate here.
    const context = createSecureContext({
      cert: certificatePem(leaf) + chainPem,
      key: this.#leafKeyPem,
      ca: [],
      minVersion: 'TLSv1.2',
      ...(this.#isRsa ? { dhparam: 'auto' } : {}),
    });
    return { context, notBefore, notAfter };
  }
}

/**
 * Early enough for clocks that are ahead; near the root's own end, when there is no later leaf to be had, not in a
 * loop.
 */
function renewalOf(notAfter: number, now: number): number {
  return Math.max(notAfter - RENEW_EARLY_MS, Math.min(now + HOUR_MS, notAfter));
}

/** Certificates know no milliseconds. */
export function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}
