import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import type { Commit } from '../../services/registers/commit.ts';
import { WatchedSpace } from '../../services/registers/watched-space.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import type { IssuedCertificate } from '../pki/node-authority.ts';
import { NO_VERSIONS } from '../proto/no-versions.ts';
import { keyIn, SPACE } from './control-plane-spaces.ts';
import { type NodeEntry, RESOURCES, type Resource } from './control-plane-state.ts';

/**
 * Certificates of one node that count at the same time; of a renewal whose answer was lost the one before is still
 * there.
 */
const MAX_CERTIFICATES = CONTROL_PLANE_BOUNDS.certificates.one;
/** A certificate that was shown within this is in use. */
const IN_USE_MS = 86_400_000;
/** How often it is stored that a node was there, where nothing else is to be stored. */
const SEEN_EVERY_MS = 60_000;

interface StoredCertificate {
  readonly sha256: string;
  readonly expires_at: string;
  /** The CA that has signed it, by its name; absent: of before there could be two. */
  readonly ca?: string;
}

interface StoredNode {
  readonly org_id: string;
  readonly node_id: string;
  readonly enrolled_at: string;
  readonly revoked_at?: string;
  /** Those that count, the newest last. */
  readonly certificates: readonly StoredCertificate[];
}

interface Seen {
  readonly last_seen_at: string;
  readonly gateway_version: string;
  readonly versions: Readonly<Record<Resource, string>>;
  readonly policy?: { readonly sequence: number; readonly kid: string };
  /** The CA of the certificate that was shown last, by its name; absent: of before it was remembered. */
  readonly ca?: string;
}

/** Who a certificate belongs to. */
export interface NodeId {
  readonly orgId: string;
  readonly nodeId: string;
}

/** What a node says of itself. */
export interface SaidByNode {
  readonly versions: Readonly<Record<Resource, string>>;
  /** Undefined: as it was. */
  readonly gatewayVersion: string | undefined;
  /** Of the bundle in force; undefined: as it was. */
  readonly policy?: { readonly sequence: number; readonly kid: string };
}

interface EnrolledNodesGround {
  readonly holders: Map<string, string>;
  readonly shownAt: Map<string, number>;
  readonly listeners: Set<(node: NodeId) => void>;
}

/**
 * The nodes of all orgs, with the certificates that count; in memory, because every call asks. What nodes say of
 * themselves stands apart, so that it never meets a revocation.
 */
export class EnrolledNodes {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #space: WatchedSpace<StoredNode>;
  /** SHA-256 of a certificate to the key of its node. */
  readonly #holders: ReadonlyMap<string, string>;
  /** When a certificate that counts was last shown, monotonic milliseconds; since this start. */
  readonly #shownAt: Map<string, number>;
  readonly #seen = new Map<string, Seen>();
  /** By node, the CA of the certificate that it has shown last; since this start. */
  readonly #shownCa = new Map<string, string>();
  /** When it was last stored, milliseconds. */
  readonly #storedAt = new Map<string, number>();
  readonly #listeners: Set<(node: NodeId) => void>;

  private constructor(store: Store, clock: Clock, space: WatchedSpace<StoredNode>, { holders, shownAt, listeners }: EnrolledNodesGround) {
    this.#store = store;
    this.#clock = clock;
    this.#space = space;
    this.#holders = holders;
    this.#shownAt = shownAt;
    this.#listeners = listeners;
  }

  static async open(store: Store, clock: Clock): Promise<EnrolledNodes> {
    const ground: EnrolledNodesGround = { holders: new Map(), shownAt: new Map(), listeners: new Set() };
    const space = await WatchedSpace.open<StoredNode>(store, SPACE.nodes, {
      read: (value) => value as StoredNode,
      changed: (key, now, before) => {
        hold(ground, key, now?.certificates ?? [], before?.certificates ?? []);
        const of = now ?? before;
        if (of !== undefined) for (const listener of ground.listeners) listener({ orgId: of.org_id, nodeId: of.node_id });
      },
    });
    const nodes = new EnrolledNodes(store, clock, space, ground);
    for (const { key, value } of await store.list(SPACE.seen)) nodes.#seen.set(key, value as Seen);
    return nodes;
  }

  /** Those whose certificate counts. */
  get count(): number {
    let count = 0;
    for (const _node of this.#withCertificate()) count += 1;
    return count;
  }

  /** Told of each node whose certificates are others now. @returns what ends that */
  onChange(listener: (node: NodeId) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Whose certificate this is.
   * @param certificate DER, signed by the CA
   * @returns `revoked` where it counts no longer, `expired`
   */
  holderOf(certificate: Uint8Array): NodeId | 'revoked' | 'expired' {
    const sha256 = sha256Hex(certificate);
    const node = this.#space.get(this.#holders.get(sha256) ?? '');
    const found = node?.certificates.find((one) => one.sha256 === sha256);
    if (node === undefined || found === undefined || node.revoked_at !== undefined) return 'revoked';
    return Date.parse(found.expires_at) <= this.#clock.now() ? 'expired' : { orgId: node.org_id, nodeId: node.node_id };
  }

  /** A certificate that counts was shown with a call. */
  shown(certificate: Uint8Array): void {
    const sha256 = sha256Hex(certificate);
    const key = this.#holders.get(sha256);
    if (key === undefined) return;
    this.#shownAt.set(sha256, this.#clock.monotonic());
    const ca = this.#space.get(key)?.certificates.find((one) => one.sha256 === sha256)?.ca;
    if (ca !== undefined) this.#shownCa.set(key, ca);
  }

  list(orgId: string): readonly NodeEntry[] {
    const own = [...this.#space.values()].filter(({ org_id: org }) => org === orgId);
    return own.map((node) => this.#entry(node)).sort((a, b) => (a.node_id < b.node_id ? -1 : 1));
  }

  /** Nodes of all orgs whose certificate counts. */
  *counting(): Generator<NodeEntry> {
    for (const node of this.#withCertificate()) yield this.#entry(node);
  }

  /**
   * Nodes of all orgs that may not have a certificate of a CA yet. One that was issued is not one that the node has: it
   * may have ended before it was written. So a node that has others as well must have shown one of this CA.
   * @param ca by its name
   */
  *ofOtherCa(ca: string): Generator<NodeEntry> {
    for (const node of this.#withCertificate()) {
      const key = keyIn(node.org_id, node.node_id);
      const hasIt = this.#counted(node).every((one) => one.ca === ca) || (this.#shownCa.get(key) ?? this.#seen.get(key)?.ca) === ca;
      if (!hasIt) yield this.#entry(node);
    }
  }

  /** Nodes of all orgs to which a CA has issued a certificate that counts. @param ca by its name */
  *ofCa(ca: string): Generator<NodeEntry> {
    for (const node of this.#withCertificate()) if (this.#counted(node).some((one) => one.ca === ca)) yield this.#entry(node);
  }

  *#withCertificate(): Generator<StoredNode> {
    for (const node of this.#space.values()) if (node.revoked_at === undefined && this.#counted(node).length > 0) yield node;
  }

  #counted({ certificates }: StoredNode): readonly StoredCertificate[] {
    const now = this.#clock.now();
    return certificates.filter((one) => Date.parse(one.expires_at) > now);
  }

  /** What a node has said of its versions last. */
  said({ orgId, nodeId }: NodeId): Readonly<Record<Resource, string>> {
    return this.#seen.get(keyIn(orgId, nodeId))?.versions ?? NO_VERSIONS;
  }

  /** A node has called; if it said something of itself that is kept. */
  async heard({ orgId, nodeId }: NodeId, said?: SaidByNode): Promise<void> {
    const key = keyIn(orgId, nodeId);
    const now = this.#clock.now();
    const before = this.#seen.get(key);
    const policy = said?.policy ?? before?.policy;
    const ca = this.#shownCa.get(key) ?? before?.ca;
    const next: Seen = {
      last_seen_at: timestamp(now),
      gateway_version: said?.gatewayVersion ?? before?.gateway_version ?? '',
      versions: said?.versions ?? before?.versions ?? NO_VERSIONS,
      ...(policy === undefined ? {} : { policy }),
      ...(ca === undefined ? {} : { ca }),
    };
    this.#seen.set(key, next);
    const isNews =
      before?.gateway_version !== next.gateway_version ||
      before?.ca !== next.ca ||
      RESOURCES.some((one) => before?.versions[one] !== next.versions[one]);
    if (!isNews && now - (this.#storedAt.get(key) ?? Number.NEGATIVE_INFINITY) < SEEN_EVERY_MS) return;
    this.#storedAt.set(key, now);
    await this.#store.commit(undefined, [{ op: 'put', space: SPACE.seen, key, value: next }]);
  }

  /**
   * The node is enrolled, whatever it was before: of its certificates this one alone counts.
   * @param also what belongs into the commit
   * @throws GatewayError `conflict`
   */
  async enrol(
    node: NodeId,
    certificate: IssuedCertificate,
    gatewayVersion: string,
    also: { readonly effects: readonly Effect[]; readonly expect: readonly Expectation[] },
    commit: Commit,
  ): Promise<void> {
    const { orgId, nodeId } = node;
    const key = keyIn(orgId, nodeId);
    const now = this.#clock.now();
    const found = await this.#store.entity(SPACE.nodes, key);
    const seen: Seen = { last_seen_at: timestamp(now), gateway_version: gatewayVersion, versions: NO_VERSIONS };
    const value: StoredNode = {
      org_id: orgId,
      node_id: nodeId,
      enrolled_at: timestamp(now),
      certificates: [storedCertificate(certificate)],
    };
    await commit(
      nodeId,
      [{ op: 'put', space: SPACE.nodes, key, value }, { op: 'put', space: SPACE.seen, key, value: seen }, ...also.effects],
      [{ space: SPACE.nodes, key, version: found?.version }, ...also.expect],
    );
    this.#seen.set(key, seen);
    this.#shownCa.delete(key);
    this.#storedAt.set(key, now);
    await this.#space.refresh(key);
  }

  /**
   * A further certificate of a node that is enrolled. Where there are too many the oldest goes that nobody has shown
   * within a day; never one in use, nor the one that asks.
   * @param asking the certificate that was shown with the call, DER
   * @throws GatewayError `not_found` when it was revoked meanwhile, `too_many_attempts` when all are in use, `conflict`
   */
  async renew({ orgId, nodeId }: NodeId, certificate: IssuedCertificate, asking: Uint8Array | undefined, commit: Commit): Promise<void> {
    const now = this.#clock.now();
    if (asking !== undefined) this.shown(asking);
    await this.#change(orgId, nodeId, commit, (before) => {
      if (before.revoked_at !== undefined) throw unknown(nodeId);
      const certificates = before.certificates.filter((one) => Date.parse(one.expires_at) > now);
      for (let more = certificates.length + 1 - MAX_CERTIFICATES; more > 0; more--) {
        const idle = certificates.findIndex((one) => !this.#isInUse(one));
        if (idle === -1)
          throw new GatewayError(
            'too_many_attempts',
            `The node ${nodeId} has used ${MAX_CERTIFICATES} certificates within a day: it may renew tomorrow.`,
          );
        certificates.splice(idle, 1);
      }
      return { ...before, certificates: [...certificates, storedCertificate(certificate)] };
    });
  }

  #isInUse({ sha256 }: StoredCertificate): boolean {
    const shownAt = this.#shownAt.get(sha256);
    return shownAt !== undefined && this.#clock.monotonic() - shownAt < IN_USE_MS;
  }

  /**
   * None of its certificates counts from now on. The second time nothing changes.
   * @throws GatewayError `not_found`, `conflict`
   */
  async revoke(orgId: string, nodeId: string, commit: Commit): Promise<NodeEntry> {
    const node = this.#space.get(keyIn(orgId, nodeId));
    if (node?.revoked_at !== undefined) return this.#entry(node);
    const at = timestamp(this.#clock.now());
    return this.#entry(await this.#change(orgId, nodeId, commit, (before) => ({ ...before, revoked_at: at })));
  }

  async #change(orgId: string, nodeId: string, commit: Commit, next: (before: StoredNode) => StoredNode): Promise<StoredNode> {
    const key = keyIn(orgId, nodeId);
    const found = await this.#store.entity(SPACE.nodes, key);
    if (found === undefined) throw unknown(nodeId);
    const value = next(found.value as StoredNode);
    await commit(nodeId, [{ op: 'put', space: SPACE.nodes, key, value }], [{ space: SPACE.nodes, key, version: found.version }]);
    await this.#space.refresh(key);
    return value;
  }

  #entry({ org_id, node_id, enrolled_at, revoked_at, certificates }: StoredNode): NodeEntry {
    const seen = this.#seen.get(keyIn(org_id, node_id));
    return {
      node_id,
      org_id,
      enrolled_at,
      ...(seen === undefined ? {} : { last_seen_at: seen.last_seen_at }),
      certificate_expires_at: certificates.at(-1)?.expires_at ?? enrolled_at,
      ...(revoked_at === undefined ? {} : { revoked_at }),
      ...(seen === undefined || seen.gateway_version === '' ? {} : { gateway_version: seen.gateway_version }),
      versions: { ...NO_VERSIONS, ...seen?.versions },
      ...(seen?.policy === undefined || seen.policy.sequence === 0
        ? {}
        : { policy_sequence: seen.policy.sequence, policy_kid: seen.policy.kid }),
    };
  }
}

/** These certificates of a node count now, and no others of it. */
function hold(
  { holders, shownAt }: EnrolledNodesGround,
  key: string,
  now: readonly StoredCertificate[],
  before: readonly StoredCertificate[],
): void {
  for (const { sha256 } of before) holders.delete(sha256);
  for (const { sha256 } of now) holders.set(sha256, key);
  for (const { sha256 } of before) if (!holders.has(sha256)) shownAt.delete(sha256);
}

function storedCertificate({ der, ca, notAfter }: IssuedCertificate): StoredCertificate {
  return { sha256: sha256Hex(der), expires_at: timestamp(notAfter), ca };
}

function unknown(nodeId: string): GatewayError {
  return new GatewayError('not_found', `There is no node ${nodeId}.`);
}
