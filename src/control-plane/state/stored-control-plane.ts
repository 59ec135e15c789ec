import type { Events } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { SecretBox } from '../../base/lib/secret-box.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { AuditTrail } from '../../services/orgs/audit-trail.ts';
import { OrgHoldings } from '../../services/orgs/org-holdings.ts';
import type { LeafPlace } from '../../storage/contract/leaves.ts';
import type { Store } from '../../storage/contract/store.ts';
import { latestClosedAt, newestRootOf } from '../ledger/org-ledger.ts';
import { declaredRestore } from '../ledger/restore-declaration.ts';
import type { KeptSigningKey } from '../pki/kept-signing-key.ts';
import type { KeyFiles } from '../pki/key-files.ts';
import { BootstrapTokens } from './bootstrap-tokens.ts';
import type { ControlPlaneState, Org, Resource, ShownKey, SigningUse } from './control-plane-state.ts';
import { EnrolledNodes } from './enrolled-nodes.ts';
import { HELD_OF_PLANE } from './held-of-plane.ts';
import { KeptOverlays } from './kept-overlays.ts';
import { KeptTelemetry } from './kept-telemetry.ts';
import { KeyRotations } from './key-rotations.ts';
import type { NodeAuthorities } from './node-authorities.ts';
import { OrgApiKeys } from './org-api-keys.ts';
import { OrgBundles } from './org-bundles.ts';
import { type CheckpointRules, OrgCheckpoints } from './org-checkpoints.ts';
import { OrgEntities, type ReadBodies } from './org-entities.ts';
import { OrgLedgers } from './org-ledgers.ts';
import { type OrgLogEntries, openLogEntries, type TransparencyLog } from './org-log-entries.ts';
import { OrgRegister } from './org-register.ts';
import { type OrgTimestamps, openTimestamps, type TimeStampAuthority } from './org-timestamps.ts';
import { OrgVersions } from './org-versions.ts';
import { SignedAnew } from './signed-anew.ts';
import { SigningKeys } from './signing-keys.ts';

export interface StoredControlPlaneOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  /** False while the clock is in doubt: then nothing is removed for its age. */
  readonly mayExpire: () => boolean;
  readonly box: SecretBox;
  /** Of nodes and of the control plane itself. */
  readonly authorities: NodeAuthorities;
  /** Where the private keys of each use are. */
  readonly keyFiles: Readonly<Record<SigningUse, KeyFiles<KeptSigningKey>>>;
  /** Who stamps roots; undefined: nobody. */
  readonly timeStamps: TimeStampAuthority | undefined;
  /** Where roots are entered; undefined: nowhere. */
  readonly transparencyLog: TransparencyLog | undefined;
  readonly checkpoints: CheckpointRules;
  readonly leaves: LeafPlace;
  /** By the rules of the gateway's own API. */
  readonly read: ReadBodies;
  /** Turns names of providers into connector ids; undefined for an unknown one. */
  readonly connectorId: (text: string) => string | undefined;
}

interface Registers {
  readonly versions: OrgVersions;
  readonly register: OrgRegister;
  readonly tokens: BootstrapTokens;
  readonly keys: OrgApiKeys;
  readonly bundles: OrgBundles;
  readonly overlays: KeptOverlays;
  readonly entities: OrgEntities;
  readonly nodes: EnrolledNodes;
  readonly ledgers: OrgLedgers;
  readonly timestamps: OrgTimestamps;
  readonly logEntries: OrgLogEntries;
  readonly checkpoints: OrgCheckpoints;
  readonly telemetry: KeptTelemetry;
}

/** What a control plane keeps, over the storage contract. */
export class StoredControlPlane implements ControlPlaneState {
  readonly orgs: ControlPlaneState['orgs'];
  readonly tokens: ControlPlaneState['tokens'];
  readonly apiKeys: ControlPlaneState['apiKeys'];
  readonly bundles: ControlPlaneState['bundles'];
  readonly overlays: ControlPlaneState['overlays'];
  readonly entities: ControlPlaneState['entities'];
  readonly assignments: ControlPlaneState['assignments'];
  readonly nodes: ControlPlaneState['nodes'];
  readonly ledger: ControlPlaneState['ledger'];
  /** Whoever changes something by the admin API does so by its `commitFor`. */
  readonly audit: AuditTrail;
  /** For the calls of gateways. */
  readonly registers: Registers;
  readonly authorities: NodeAuthorities;
  /** Keys of bundles and roots. */
  readonly rotations: KeyRotations;

  private constructor({ authorities }: StoredControlPlaneOptions, registers: Registers, audit: AuditTrail, rotations: KeyRotations) {
    const { register, tokens, keys, bundles, overlays, entities, nodes } = registers;
    /** Everything but orgs is below one that there is. */
    const below = (orgId: string) => register.require(orgId);
    this.registers = registers;
    this.authorities = authorities;
    this.rotations = rotations;
    this.audit = audit;
    this.orgs = register.orgs;
    this.tokens = { issue: async (orgId, ttl, commit) => tokens.issue(below(orgId).org_id, ttl, commit) };
    this.apiKeys = {
      create: async (orgId, asked, commit) => keys.create(below(orgId).org_id, asked, commit),
      list: async (orgId) => keys.list(below(orgId).org_id),
      revoke: async (orgId, id, commit) => keys.revoke(below(orgId).org_id, id, commit),
    };
    this.bundles = {
      get: async (orgId) => bundles.get(below(orgId).org_id),
      put: async (orgId, yaml, commit, accept) => bundles.put(below(orgId), yaml, commit, accept),
    };
    this.overlays = {
      list: async (orgId) => overlays.list(below(orgId).org_id),
      put: async (orgId, id, yaml, commit, accept) => overlays.put(below(orgId), id, yaml, commit, accept),
      remove: async (orgId, id, commit, accept) => overlays.remove(below(orgId), id, commit, accept),
    };
    this.entities = {
      list: async (orgId, kind) => entities.list(below(orgId).org_id, kind),
      get: async (orgId, kind, id) => entities.get(below(orgId).org_id, kind, id),
      put: async (orgId, kind, id, body, commit) => entities.put(below(orgId), kind, id, body, commit),
      remove: async (orgId, kind, id, commit) => entities.remove(below(orgId).org_id, kind, id, commit),
    };
    this.assignments = { set: async (orgId, id, node, on, commit) => entities.assign(below(orgId).org_id, id, node, on, commit) };
    this.nodes = {
      list: async (orgId) => nodes.list(below(orgId).org_id),
      revoke: async (orgId, nodeId, commit) => nodes.revoke(below(orgId).org_id, nodeId, commit),
    };
    this.ledger = ledgerOf(registers, below);
  }

  /** @throws Error when something of what is kept cannot be read */
  static async open(options: StoredControlPlaneOptions): Promise<StoredControlPlane> {
    const { store, clock, log, events, mayExpire, box, authorities, keyFiles, leaves, read, connectorId } = options;
    const versions = await OrgVersions.open(store, clock);
    const register = await OrgRegister.open(store, clock, versions);
    const orgIds = () => register.orgs.list().map((org) => org.org_id);
    const holdings = await OrgHoldings.open(store, HELD_OF_PLANE);
    const outbox = { post: () => ({ effects: [], stored: nothing, failed: nothing }) };
    const audit = new AuditTrail({ store, clock, events, outbox, holdings });
    const ground = { store, audit, clock, log };
    const keys = {
      bundle: await SigningKeys.open({ ...ground, use: 'bundle', files: keyFiles.bundle }),
      ledger: await SigningKeys.open({ ...ground, use: 'ledger', files: keyFiles.ledger, latestSigned: () => latestClosedAt(store) }),
    };
    const restore = await declaredRestore(store);
    const bundles = await OrgBundles.open({ store, clock, versions, signers: keys.bundle, connectorId, restore });
    const bundleOf = (orgId: string): string | undefined => bundles.get(orgId)?.bundle_yaml;
    const timestamps = await openTimestamps(ground, options.timeStamps, newestRoots(store, orgIds()));
    const logEntries = await openLogEntries(ground, keys.ledger, options.transparencyLog, newestRoots(store, orgIds()));
    const signed = (root: MerkleRoot): void => {
      for (const anchored of [timestamps, logEntries]) anchored.take(root);
    };
    const registers: Registers = {
      versions,
      register,
      tokens: new BootstrapTokens({ store, clock, ca: () => authorities.ofServer.certificate, mayExpire }),
      keys: await OrgApiKeys.open(store, clock, versions),
      bundles,
      overlays: new KeptOverlays({ store, clock, versions, signers: keys.bundle, connectorId, bundleOf }),
      entities: new OrgEntities({ store, clock, versions, box, read }),
      nodes: await EnrolledNodes.open(store, clock),
      telemetry: new KeptTelemetry(store, (id) => connectorId(id) === id),
      ledgers: await OrgLedgers.open({ store, place: leaves, signers: keys.ledger, clock, log, restore, signed }, orgIds()),
      timestamps,
      logEntries,
      checkpoints: new OrgCheckpoints({ ...options.checkpoints, store, clock, signers: keys.ledger }),
    };
    const { overlays, nodes } = registers;
    const commit = audit.commitFor({ principal: { kind: 'node', id: 'control-plane' }, operation: 'keys.sign_anew', from: '127.0.0.1' });
    const anew = new SignedAnew({ keys: keys.bundle, bundles, overlays, orgIds, commit, clock, log });
    const rotations = new KeyRotations(keys, authorities, nodes, anew);
    void anew.start();
    return new StoredControlPlane(options, registers, audit, rotations);
  }

  get caCertificate(): string {
    return this.authorities.pem;
  }

  keys(): readonly ShownKey[] {
    return this.rotations.listed;
  }

  /** Of what there is for an org now; empty: it has none. */
  presentVersions(orgId: string): Readonly<Record<Resource, string>> {
    const { versions, bundles } = this.registers;
    return { ...versions.versions(orgId), policy: bundles.get(orgId)?.version ?? '', keys: this.rotations.version };
  }

  /** Closes no further batch of the ledger. The store is closed by whoever has opened it. */
  async close(): Promise<void> {
    await this.rotations.stop();
    await this.registers.timestamps.close();
    await this.registers.logEntries.close();
    await this.registers.ledgers.close();
  }
}

function ledgerOf({ ledgers, timestamps, logEntries, checkpoints }: Registers, below: (orgId: string) => Org): ControlPlaneState['ledger'] {
  return {
    roots: async (orgId, after, limit) => ledgers.roots(below(orgId).org_id, after, limit),
    inclusion: async (orgId, hash) => ledgers.inclusion(below(orgId).org_id, hash),
    consistency: async (orgId, first, second) => ledgers.consistency(below(orgId).org_id, first, second),
    timestamps: async (orgId, after, limit) => timestamps.list(below(orgId).org_id, after, limit),
    logEntries: async (orgId, after, limit) => logEntries.list(below(orgId).org_id, after, limit),
    async checkpoint(orgId, { sequence, cosigned }) {
      const { org_id: id } = below(orgId);
      if (sequence !== undefined) return checkpoints.of(id, sequence);
      return cosigned === undefined ? checkpoints.published(id) : checkpoints.cosigned(id, cosigned);
    },
    checkpoints: async (orgId, after, limit) => checkpoints.list(below(orgId).org_id, after, limit),
    cosign: async (orgId, sequence, line) => checkpoints.cosign(below(orgId).org_id, sequence, line),
    verifierKey: async (orgId, key) => checkpoints.verifierKey(below(orgId).org_id, key),
    get pending() {
      return ledgers.pending;
    },
  };
}

function nothing(): void {}

async function* newestRoots(store: Store, orgIds: readonly string[]): AsyncGenerator<MerkleRoot> {
  for (const orgId of orgIds) {
    const root = await newestRootOf(store, orgId);
    if (root !== undefined) yield root;
  }
}
