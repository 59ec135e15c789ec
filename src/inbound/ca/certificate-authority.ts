// The local root, the leaves it signs and the TLS contexts made of them. Here and nowhere else a private key of ours is held. What may not be here:
// sockets, and any decision whether a host is intercepted. node-forge writes the ASN.1; every key and signature comes from node:crypto (a key made by
// node-forge stalls the event loop for a third of a second).
import { generateKeyPair, type KeyObject } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { promisify } from 'node:util';
import type { Clock } from '../../base/lib/clock.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { uuidv7 } from '../../base/lib/uuidv7.ts';
import { certificatePem, issueLeaf, issueRoot, type LeafProfile, leafProfile, subjectOf, type Validity } from './certificate.ts';
import { loadRoot, type Root } from './root-chain.ts';
import { CertificateAuthorityError, createRootFiles, readRootFiles, writeTrustBundle } from './root-files.ts';
import { trustBundle } from './trust-bundle.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ROOT_LIFE_MS = 3650 * DAY_MS;
const ROOT_WARNING_MS = 30 * DAY_MS;
/** 45 days in all, below the 47 that clients will enforce (CA/Browser Forum SC-081v3); one of them lies in the past for clocks that are behind. */
const LEAF_LIFE_MS = 45 * DAY_MS;
const BACKDATED_MS = DAY_MS;
/** A context is made anew this long before its leaf expires, for clocks that are ahead. */
const RENEW_EARLY_MS = 7 * DAY_MS;
const DEFAULT_MAX_CONTEXTS = 1_000;

export interface CertificateAuthorityOptions {
  /** `GW_CA_DIR`; made when it is not there. */
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** TLS contexts kept at most; default 1,000. */
  readonly maxContexts?: number;
}

export interface CertificateAuthority {
  /** What clients are to trust: the root alone, that of a company's chain when the file goes up to it. PEM; never holds a key. */
  readonly rootPem: string;
  readonly rootDer: Buffer;
  /** Lower-case hex SHA-256 of the DER of the certificate that signs. */
  readonly fingerprint: string;
  /** Milliseconds since the epoch at which the root, or the first of its chain, expires. */
  readonly expiresAt: number;
  /** True when this start made the root. */
  readonly created: boolean;
  /** Path of `ca-bundle.pem`. */
  readonly bundlePath: string;
  /** System roots and ours, for variables that replace the trust store. */
  bundlePem(): string;
  /**
   * The TLS context that answers for one host, made at first use and renewed before its leaf expires. Any number of callers at once wait for one leaf.
   * @param host name or IP literal; folded as decision 3.17 says
   * @throws GatewayError `invalid_target` when it is no host
   * @throws CertificateAuthorityError when the root's name constraints leave the host out, and when by the clock of now the root has expired, or is not valid yet
   */
  contextFor(host: string): Promise<SecureContext>;
}

/**
 * Opens the root in `dir`, or makes one on the first start, and writes the trust bundle beside it.
 * @throws CertificateAuthorityError when what is there cannot be used; nothing is changed then
 */
export async function openCertificateAuthority(options: CertificateAuthorityOptions): Promise<CertificateAuthority> {
  const { dir, clock, log } = options;
  const found = await readRootFiles(dir);
  const root = found === undefined ? await createRoot(dir, clock) : loadRoot(dir, found, clock.now());
  for (const warning of root.warnings) log.warn({ dir }, warning);
  const left = root.issuer.validity.notAfter - clock.now();
  if (left < ROOT_WARNING_MS) {
    log.warn({ dir, expires_at: timestamp(root.issuer.validity.notAfter) }, 'the root certificate expires soon: plan a new one');
  }
  const bundle = await trustBundle(root.anchorPem);
  const bundlePath = await writeTrustBundle(dir, bundle, uuidv7(clock.now()));
  const leafKeys = await generateKeys();
  const contexts = new ContextCache({
    profile: leafProfile(root.issuer, subjectOf(leafKeys.publicKey)),
    leafKey: leafKeys.privateKey,
    chainPem: root.chainPem,
    fingerprint: root.fingerprint,
    clock,
    max: options.maxContexts ?? DEFAULT_MAX_CONTEXTS,
  });
  // The first one takes ten times as long as any later one, which no call should wait for; and a root that cannot sign shows now.
  await contexts.warmUp();
  return {
    rootPem: root.anchorPem,
    rootDer: root.anchorDer,
    fingerprint: root.fingerprint,
    expiresAt: root.issuer.validity.notAfter,
    created: found === undefined,
    bundlePath,
    bundlePem: () => bundle,
    contextFor: (host) => contexts.get(host),
  };
}

const generateKeyPairAsync = promisify(generateKeyPair);

async function generateKeys(): Promise<{ publicKey: KeyObject; privateKey: KeyObject }> {
  return await generateKeyPairAsync('ec', { namedCurve: 'P-256' });
}

async function createRoot(dir: string, clock: Clock): Promise<Root> {
  const { publicKey, privateKey } = await generateKeys();
  const notBefore = wholeSeconds(clock.now() - BACKDATED_MS);
  const der = await issueRoot(subjectOf(publicKey), privateKey, { notBefore, notAfter: notBefore + ROOT_LIFE_MS });
  const files = { certificate: certificatePem(der), key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  await createRootFiles(dir, files);
  return loadRoot(dir, files, clock.now());
}

interface ContextCacheOptions {
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
class ContextCache {
  readonly #options: ContextCacheOptions;
  readonly #contexts: Lru<string, CachedContext>;
  readonly #pending = new Map<string, Promise<SecureContext>>();
  readonly #leafKeyPem: string;
  /** Leaves are made one after the other, so that many new hosts at once cannot hold the event loop. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: ContextCacheOptions) {
    this.#options = options;
    this.#contexts = new Lru({ max: options.max });
    this.#leafKeyPem = options.leafKey.export({ type: 'sec1', format: 'pem' }).toString();
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
    // Two thirds of the whole are OpenSSL reading key and certificate from PEM; Node has no way to hand over what is parsed already.
    // An empty `ca`, or every context would hold all of Node's roots: clients show no certificate here.
    const context = createSecureContext({ cert: certificatePem(leaf) + chainPem, key: this.#leafKeyPem, ca: [], minVersion: 'TLSv1.2' });
    return { context, notBefore, notAfter };
  }
}

/** Early enough for clocks that are ahead; near the root's own end, when there is no later leaf to be had, not in a loop. */
function renewalOf(notAfter: number, now: number): number {
  return Math.max(notAfter - RENEW_EARLY_MS, Math.min(now + HOUR_MS, notAfter));
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}
