/*
 * What the control plane keeps, as its two faces see it: the calls of gateways (`calls`) and the admin API (`admin`).
 * Everything is per org; each change names the org, is one commit with its entry in the audit trail, and raises the
 * version of what it changed.
 */

import type { ApiKey } from '../../base/model/keys.ts';
import type { PlanTier } from '../../base/model/org.ts';
import type { ConsistencyProof } from '../../ledger/consistency-proof.ts';
import type { InclusionProof } from '../../ledger/inclusion-proof.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import type { NamedLogEntry } from '../../ledger/log-entry.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import type { emptiedWarnings } from '../../services/policy/policy-warnings.ts';
import type { AcceptWeighed } from '../../services/policy/weigh-policy.ts';
import type { Commit } from '../../services/registers/commit.ts';

/** What a gateway may lack. The members of `Stale` and `Versions` of the protocol. */
export const RESOURCES = ['policy', 'workloads', 'credentials', 'export_config', 'addons', 'api_keys', 'keys', 'overlays'] as const;
export type Resource = (typeof RESOURCES)[number];

export interface Org {
  readonly org_id: string;
  readonly status: 'active' | 'suspended' | 'terminated';
  readonly suspended_reason?: string;
  readonly plan_tier: PlanTier;
  /** What a gateway does past the grace period. */
  readonly cp_down_policy: 'permissive' | 'strict';
  readonly redis_down_policy: 'allow' | 'deny';
  readonly grace_seconds: number;
  /** Whether gateways may hand on what is written there (decision 13.12). */
  readonly gateway_writes: 'allow' | 'deny';
  /** Requests in a UTC calendar month at each gateway; null: what the gateway's own setting says. */
  readonly monthly_request_limit: number | null;
  /** Lets requests pass the limit. */
  readonly overage_enabled: boolean;
  readonly created_at: string;
  readonly updated_at: string;
}

/** What an operator sets of an org. */
type OrgMember =
  | 'status'
  | 'plan_tier'
  | 'cp_down_policy'
  | 'redis_down_policy'
  | 'grace_seconds'
  | 'gateway_writes'
  | 'monthly_request_limit'
  | 'overage_enabled';

export type OrgChange = Partial<Pick<Org, OrgMember>> & {
  /** Null takes the reason away. */
  readonly suspended_reason?: string | null;
};

export interface IssuedToken {
  /** Shown this once. */
  readonly token: string;
  readonly expires_at: string;
}

/** The bundle of an org as it is signed for gateways. */
export interface OrgBundle {
  readonly bundle_id: string;
  readonly version: string;
  readonly sequence: number;
  readonly kid: string;
  readonly bundle_yaml: string;
  /** Base64. */
  readonly signature: string;
  readonly updated_at: string;
}

/** A bundle that was put, and what is probably not meant in it. */
export interface AcceptedBundle extends OrgBundle {
  readonly warnings: ReturnType<typeof emptiedWarnings>;
}

export interface NodeEntry {
  readonly node_id: string;
  readonly org_id: string;
  readonly enrolled_at: string;
  readonly last_seen_at?: string;
  readonly certificate_expires_at: string;
  readonly revoked_at?: string;
  readonly gateway_version?: string;
  readonly versions: Readonly<Record<Resource, string>>;
  /** Of the bundle that it has in force. */
  readonly policy_sequence?: number;
  readonly policy_kid?: string;
}

/** What an org lays over its bundle at all of its gateways, or at one node. */
export interface KeptOverlay {
  /** `org`, or `node:` and the id of the node. */
  readonly id: string;
  readonly org_id: string;
  readonly level: 'org' | 'node';
  readonly node_id?: string;
  readonly bundle_yaml: string;
  readonly put_at: string;
  readonly kid: string;
  /** Base64. */
  readonly signature: string;
}

/** One entity of an org in the shape that the gateway's own API takes, with its id. Secrets stand apart, sealed. */
export interface OrgEntity {
  readonly id: string;
  /** Without secrets. */
  readonly value: Readonly<Record<string, unknown>>;
}

export type EntityKind = 'workloads' | 'credentials' | 'export-destinations' | 'addons';

/** A checkpoint as it is shown. */
export interface ShownCheckpoint {
  /** Of the root. */
  readonly sequence: number;
  readonly published_at: string;
  /** The signed note, cosignatures included. */
  readonly checkpoint: string;
  readonly cosignatures: readonly { readonly witness: string; readonly time: string }[];
}

/** What keys of the control plane sign. */
export type SigningUse = ListedKey['use'];

/** A public key as it is shown, with what it is now. */
export type ShownKey = ListedKey & { readonly state: 'next' | 'current' | 'former' };

/** A CA as it is shown. */
export interface ShownAuthority {
  readonly kid: string;
  readonly alg: 'ecdsa-p256';
  readonly use: 'ca';
  /** Its certificate, DER in base64. */
  readonly public_key: string;
  readonly state: ShownKey['state'];
  /** When it begins to sign certificates of nodes. */
  readonly not_before?: string;
}

/** What can be replaced with overlap: what signs, and the CA of nodes. */
export type RotatedUse = SigningUse | 'ca';

/** How the keys of one use stand (decision 13.18). */
export interface KeyRotation {
  readonly use: RotatedUse;
  readonly keys: readonly (ShownKey | ShownAuthority)[];
  /** When the next key signs; null: there is none. */
  readonly switch_at: string | null;
  /** Nodes that have not fetched the list of keys as it is now. */
  readonly unaware_nodes: number;
  /** Of bundles: bundles and overlays that are still signed with a former key. */
  readonly signed_by_former: number;
  /** Nodes whose bundle in force is signed with a former key, or whose newest certificate is of a former CA. */
  readonly nodes_on_former: number;
  /** Some of those nodes. */
  readonly nodes: readonly { readonly org_id: string; readonly node_id: string }[];
}

/** Every method rejects with GatewayError `not_found` for an org that there is not, but for `put` and `list`. */
export interface ControlPlaneState {
  readonly orgs: {
    list(): readonly Org[];
    get(orgId: string): Org;
    put(orgId: string, change: OrgChange, commit: Commit): Promise<Org>;
  };
  readonly tokens: {
    /** @param ttlSeconds how long it may be used */
    issue(orgId: string, ttlSeconds: number, commit: Commit): Promise<IssuedToken>;
  };
  readonly apiKeys: {
    create(orgId: string, asked: { name: string; expires_at?: string }, commit: Commit): Promise<{ key: ApiKey; plain: string }>;
    list(orgId: string): Promise<readonly ApiKey[]>;
    /** @throws GatewayError `not_found` */
    revoke(orgId: string, id: string, commit: Commit): Promise<ApiKey>;
  };
  readonly bundles: {
    get(orgId: string): Promise<OrgBundle | undefined>;
    /**
     * @param accept told of what it changes before it is stored
     * @throws GatewayError `invalid_policy` with line and column; what `accept` throws
     */
    put(orgId: string, bundleYaml: string, commit: Commit, accept?: AcceptWeighed): Promise<AcceptedBundle>;
  };
  readonly overlays: {
    list(orgId: string): Promise<readonly KeptOverlay[]>;
    /**
     * @throws GatewayError `invalid_request` for an id that is none, `invalid_policy` with line and column, on the tier
     * of the org
     */
    put(orgId: string, id: string, bundleYaml: string, commit: Commit, accept?: AcceptWeighed): Promise<KeptOverlay>;
    /**
     * @param accept told of what that changes before it is done
     * @throws GatewayError `not_found`, what `accept` throws
     */
    remove(orgId: string, id: string, commit: Commit, accept?: AcceptWeighed): Promise<void>;
  };
  readonly entities: {
    list(orgId: string, kind: EntityKind): Promise<readonly OrgEntity[]>;
    get(orgId: string, kind: EntityKind, id: string): Promise<OrgEntity>;
    /** @throws GatewayError `invalid_request` naming every member that is wrong */
    put(orgId: string, kind: EntityKind, id: string, body: Readonly<Record<string, unknown>>, commit: Commit): Promise<OrgEntity>;
    remove(orgId: string, kind: EntityKind, id: string, commit: Commit): Promise<void>;
  };
  readonly assignments: {
    /**
     * Gives a `node_scoped` credential to a node, or takes it away.
     * @throws GatewayError `not_found`, `conflict` for one that is org_wide
     */
    set(orgId: string, credentialId: string, nodeId: string, assigned: boolean, commit: Commit): Promise<OrgEntity>;
  };
  readonly nodes: {
    list(orgId: string): Promise<readonly NodeEntry[]>;
    /** Its certificate is worth nothing from now on, and its stream is cut. @throws GatewayError `not_found` */
    revoke(orgId: string, nodeId: string, commit: Commit): Promise<NodeEntry>;
  };
  readonly ledger: {
    roots(orgId: string, after: number, limit: number): Promise<readonly MerkleRoot[]>;
    inclusion(
      orgId: string,
      hash: Uint8Array,
    ): Promise<{ readonly status: 'unknown' | 'pending_inclusion' } | { readonly status: 'verified'; readonly proof: InclusionProof }>;
    /**
     * That the tree of a root goes on in that of a later one, or the same.
     * @throws GatewayError `not_found`; `conflict` for a root without a tree
     */
    consistency(orgId: string, first: number, second: number): Promise<ConsistencyProof>;
    /** Time stamps of an org behind the root of a sequence, in order. */
    timestamps(
      orgId: string,
      after: number,
      limit: number,
    ): Promise<readonly { readonly sequence: number; readonly time: string; readonly token: string }[]>;
    /** Entries of roots of an org in a transparency log, behind the root of a sequence, in order. */
    logEntries(
      orgId: string,
      after: number,
      limit: number,
    ): Promise<readonly (NamedLogEntry & { readonly sequence: number; readonly time: string })[]>;
    /**
     * The published checkpoint, that of one root, or the newest with so many cosignatures.
     * @throws GatewayError `not_found`; `conflict` for a root without a tree
     */
    checkpoint(
      orgId: string,
      which: { readonly sequence?: number | undefined; readonly cosigned?: number | undefined },
    ): Promise<ShownCheckpoint>;
    /** Published checkpoints of an org behind the root of a sequence, in order. */
    checkpoints(orgId: string, after: number, limit: number): Promise<readonly ShownCheckpoint[]>;
    /**
     * Takes the cosignature of a witness.
     * @param line of the signed note @throws GatewayError `not_found`, `invalid_request`
     */
    cosign(orgId: string, sequence: number, line: string): Promise<ShownCheckpoint>;
    /** How a key of the ledger is handed to those who verify the checkpoints of an org. */
    verifierKey(orgId: string, key: ListedKey): Promise<string>;
    /** Hashes of all orgs that are under no root yet. */
    readonly pending: number;
  };
  /** Public keys of roots and bundles: those that sign, next ones and former ones. */
  keys(): readonly ShownKey[];
  /** How one key follows another. */
  readonly rotations: {
    status(use: RotatedUse): Promise<KeyRotation>;
    /**
     * Makes the next key.
     * @param switchAt when it signs, milliseconds since the epoch; what has passed means at once
     * @throws GatewayError `conflict` while there is one
     */
    rotate(use: RotatedUse, switchAt: number, commit: Commit): Promise<KeyRotation>;
    /** Gives the next key up. @throws GatewayError `conflict` where there is none, also because it signs already */
    cancel(use: RotatedUse, commit: Commit): Promise<KeyRotation>;
    /**
     * Lists former keys no longer.
     * @param confirmed also while nodes run a bundle of a former key
     * @throws GatewayError `conflict` where there is none, of the ledger, and while something still needs one
     */
    finish(use: RotatedUse, confirmed: boolean, commit: Commit): Promise<KeyRotation>;
  };
  /** PEM. */
  readonly caCertificate: string;
}
