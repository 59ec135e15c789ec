import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ApiKey } from '../../base/model/keys.ts';
import { readKeys } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { checkSignature, type MerkleRoot, readRoot } from '../../ledger/merkle-root.ts';
import type { ApiKeyEntry, ApiKeyResponse, BundleResponse, ControlPlaneCalls, EnrolmentCalls } from '../proto/messages.ts';
import type { Peer } from '../proto/peer.ts';
import type { Handlers } from '../proto/protocol-server.ts';
import type { CallGuard } from '../proto/server-call.ts';
import type { ControlPlaneCounts } from '../state/control-plane-counts.ts';
import type { OrgBundle, ShownKey } from '../state/control-plane-state.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';
import { checkedHash, checkedNumber, checkedVersions, invalid, shortText } from './checked-input.ts';
import { CountedCalls } from './counted-calls.ts';
import { EnrolmentHandlers } from './enrolment-handlers.ts';
import { GatewayWrites } from './gateway-writes.ts';
import { CHANGE_RATES, HASH_RATES, type NodeRateBounds, NodeRates } from './node-rates.ts';
import { NodeStates } from './node-states.ts';
import { OrgPages } from './org-pages.ts';
import { UpdateStreams } from './update-streams.ts';

const MAX_HASHES = 4_096;
const MAX_REPORT = 262_144;
const MAX_GATEWAY_VERSION = 64;
const MAX_KID = 128;

export interface CallsOptions {
  readonly state: StoredControlPlane;
  readonly clock: Clock;
  readonly log: Logger;
  /** Default: the rows of the table of bounds. */
  readonly hashRates?: NodeRateBounds | undefined;
  readonly changeRates?: NodeRateBounds | undefined;
}

/** What has something stored for whoever calls it, and so has a rate. Hashes have one of their own. */
const CHANGES: ReadonlySet<keyof ControlPlaneCalls> = new Set(['CheckIn', 'Renew', 'Write', 'ReportTelemetry', 'StreamUpdates']);

type Answered = Exclude<keyof ControlPlaneCalls, 'StreamUpdates'>;

/** Carries out what gateways ask for. */
export class ControlPlaneHandlers {
  readonly enrolment: Handlers<EnrolmentCalls>;
  readonly controlPlane: Handlers<ControlPlaneCalls, 'StreamUpdates'>;
  readonly counts: ControlPlaneCounts;
  readonly #options: CallsOptions;
  readonly #states: NodeStates;
  readonly #counted = new CountedCalls();
  readonly #enrolment: EnrolmentHandlers;
  readonly #pages: OrgPages;
  readonly #streams: UpdateStreams;
  readonly #writes: GatewayWrites;
  readonly #hashRates: NodeRates;
  readonly #changeRates: NodeRates;
  #acknowledged = 0;

  constructor(options: CallsOptions) {
    const { state, clock, log, hashRates = HASH_RATES, changeRates = CHANGE_RATES } = options;
    this.#options = options;
    this.#hashRates = new NodeRates(clock, 'hashes', hashRates);
    this.#changeRates = new NodeRates(clock, 'changes', changeRates);
    this.#states = new NodeStates(state, log);
    this.#pages = new OrgPages(state, this.#states);
    this.#writes = new GatewayWrites(state, this.#states);
    this.#enrolment = new EnrolmentHandlers({ state, states: this.#states, counted: this.#counted });
    this.#streams = new UpdateStreams({ state, states: this.#states, clock });
    this.enrolment = this.#enrolment.handlers;
    this.controlPlane = this.#handlers();
    this.counts = this.#counts();
  }

  /** Who calls is asked before anything is read of a call, and how often he does. */
  readonly guards: {
    readonly enrolment: CallGuard<keyof EnrolmentCalls>;
    readonly controlPlane: CallGuard<keyof ControlPlaneCalls>;
  } = {
    enrolment: { admit: () => undefined, refused: (name, fault) => this.#counted.refused(name, fault) },
    controlPlane: {
      admit: (name, peer) => {
        const node = this.#states.who(peer);
        if (CHANGES.has(name)) this.#changeRates.take(node);
        return node;
      },
      refused: (name, fault) => this.#counted.refused(name, fault),
    },
  };

  /** Whose certificate this is; undefined: nobody's that counts. */
  callerOf(certificate: Uint8Array): NodeId | undefined {
    const holder = this.#options.state.registers.nodes.holderOf(certificate);
    return typeof holder === 'string' ? undefined : holder;
  }

  /** Ends the streams, so that the server can close. */
  close(): void {
    this.#streams.close();
  }

  #handlers(): Handlers<ControlPlaneCalls, 'StreamUpdates'> {
    const pages = this.#pages;
    return {
      Renew: this.#call('Renew', (node, { csr }, peer) => this.#enrolment.renew(node, csr, peer)),
      CheckIn: this.#call('CheckIn', (node, request) => this.#checkIn(node, request)),
      FetchBundle: this.#call('FetchBundle', (node) => Promise.resolve(this.#bundle(node))),
      FetchWorkloads: this.#call('FetchWorkloads', (node, { cursor }) => pages.workloads(node, cursor)),
      FetchCredentials: this.#call('FetchCredentials', (node, { cursor }) => pages.credentials(node, cursor)),
      FetchExportConfig: this.#call('FetchExportConfig', (node, { cursor }) => pages.exportConfig(node, cursor)),
      FetchAddons: this.#call('FetchAddons', (node) => pages.addons(node)),
      FetchOverlays: this.#call('FetchOverlays', (node) => pages.overlays(node)),
      FetchKeys: this.#call('FetchKeys', (node) => Promise.resolve(pages.keys(node))),
      LookUpApiKey: this.#call('LookUpApiKey', (node, { key_hash: hash }) => this.#apiKey(node, hash)),
      SubmitHashes: this.#call('SubmitHashes', (node, { hashes }) => this.#submit(node, hashes)),
      CompareLedger: this.#call('CompareLedger', (node, { newest_root: text }) => this.#compare(node, text)),
      FetchProof: this.#call('FetchProof', (node, { hash }) => this.#proof(node, hash)),
      Write: this.#call('Write', (node, request) => this.#writes.write(node, request)),
      ReportTelemetry: this.#call('ReportTelemetry', (node, { report }) => this.#telemetry(node, report)),
      StreamUpdates: (request, peer, out) =>
        this.#counted.run('StreamUpdates', () => {
          const node = this.#states.caller(peer);
          return this.#streams.run(node, request, () => this.#isGood(peer), out);
        }),
    };
  }

  /** Who calls was asked before the message was read, and is asked again: it may have taken its time. */
  #call<K extends Answered>(
    name: K,
    answer: (node: NodeId, request: ControlPlaneCalls[K]['request'], peer: Peer) => Promise<ControlPlaneCalls[K]['response']>,
  ): (request: ControlPlaneCalls[K]['request'], peer: Peer) => Promise<ControlPlaneCalls[K]['response']> {
    return (request, peer) => this.#counted.run(name, async () => answer(this.#states.caller(peer), request, peer));
  }

  #isGood({ certificate }: Peer): boolean {
    return certificate !== undefined && this.callerOf(certificate) !== undefined;
  }

  async #checkIn(node: NodeId, request: ControlPlaneCalls['CheckIn']['request']) {
    const { versions, gateway_version: version, policy_sequence: sequence, policy_kid: kid } = request;
    const said = checkedVersions(versions);
    const gatewayVersion = shortText('gateway_version', version, MAX_GATEWAY_VERSION);
    const policy = { sequence: checkedNumber('policy_sequence', sequence), kid: shortText('policy_kid', kid, MAX_KID) };
    const org = await this.#states.takeVersions(node, said, { gatewayVersion, policy });
    return { org, node_id: node.nodeId, at: timestamp(this.#options.clock.now()) };
  }

  #bundle(node: NodeId): BundleResponse {
    const bundle = this.#options.state.registers.bundles.get(node.orgId);
    return { org: this.#states.stateFor(node), bundle: bundle === undefined ? null : signedBundle(node.orgId, bundle) };
  }

  async #apiKey(node: NodeId, hash: Uint8Array): Promise<ApiKeyResponse> {
    const { state } = this.#options;
    const hex = Buffer.from(checkedHash('key_hash', hash)).toString('hex');
    // Read first: a key that is revoked meanwhile then comes with a version that is older.
    const { api_keys: version } = state.presentVersions(node.orgId);
    const key = await state.registers.keys.find(node.orgId, hex);
    return { org: this.#states.stateFor(node), key: key === undefined ? null : apiKey(key), version };
  }

  async #submit(node: NodeId, hashes: readonly Uint8Array[]) {
    if (hashes.length > MAX_HASHES) throw invalid('hashes', `must be at most ${MAX_HASHES}`);
    for (const [at, hash] of hashes.entries()) checkedHash(`hashes[${at}]`, hash);
    this.#hashRates.take(node, hashes.length);
    await this.#options.state.registers.ledgers.submit(node.orgId, hashes);
    this.#acknowledged += hashes.length;
    return { org: this.#states.stateFor(node), acknowledged: hashes.length, at: timestamp(this.#options.clock.now()) };
  }

  async #compare(node: NodeId, text: string) {
    const { state } = this.#options;
    const { ledgers } = state.registers;
    const shown = text === '' ? undefined : shownRoot(text, node.orgId, state.keys());
    if (shown !== undefined) await ledgers.shown(node.orgId, shown);
    const { newest, restore } = await ledgers.ends(node.orgId);
    return { org: this.#states.stateFor(node), newest_root: textOf(newest), restore_root: textOf(restore), behind: ledgers.isBehind };
  }

  async #proof(node: NodeId, hash: Uint8Array) {
    const found = await this.#options.state.registers.ledgers.inclusion(node.orgId, checkedHash('hash', hash));
    const proof = found.status === 'verified' ? JSON.stringify(found.proof) : '';
    return { org: this.#states.stateFor(node), status: found.status, inclusion_proof: proof };
  }

  async #telemetry(node: NodeId, text: string) {
    if (text.length > MAX_REPORT) throw invalid('report', `must be at most ${MAX_REPORT} characters`);
    const wrong = await this.#options.state.registers.telemetry.take(node.orgId, parsed(text));
    if (wrong !== undefined) throw invalid('report', wrong);
    return { org: this.#states.stateFor(node), interval_seconds: 0 };
  }

  #counts(): ControlPlaneCounts {
    const { register, nodes, ledgers, timestamps, logEntries, checkpoints, telemetry } = this.#options.state.registers;
    const { rotations } = this.#options.state;
    const streams = this.#streams;
    const counted = this.#counted;
    const acknowledged = () => this.#acknowledged;
    return {
      get orgs() {
        return register.count;
      },
      get enrolledNodes() {
        return nodes.count;
      },
      get connectedStreams() {
        return streams.count;
      },
      get pendingHashes() {
        return ledgers.pending;
      },
      get ledgersAside() {
        return ledgers.asideCount;
      },
      get ledgersBehind() {
        return ledgers.behindCount;
      },
      get restoredAt() {
        return ledgers.restoredAt;
      },
      get timestamps() {
        return timestamps.counts;
      },
      get logEntries() {
        return logEntries.counts;
      },
      get cosignatures() {
        return checkpoints.counts;
      },
      get keySwitches() {
        return rotations.switches();
      },
      get unawareNodes() {
        return rotations.unaware;
      },
      get acknowledgedHashes() {
        return acknowledged();
      },
      get telemetryReports() {
        return telemetry.reports;
      },
      get calls() {
        return counted.list();
      },
    };
  }
}

/** Undefined: nothing that this control plane has signed for the org, or that it could tell. */
function shownRoot(text: string, orgId: string, keys: readonly ShownKey[]): MerkleRoot | undefined {
  try {
    const root = readRoot(parsed(text));
    checkSignature(root, readKeys(keys, 'ledger'));
    return root.org_id === orgId ? root : undefined;
  } catch (error) {
    if (error instanceof LedgerError) return undefined;
    throw error;
  }
}

function textOf(root: MerkleRoot | undefined): string {
  return root === undefined ? '' : JSON.stringify(root);
}

function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function signedBundle(orgId: string, { bundle_yaml, version, sequence, kid, signature }: OrgBundle) {
  return {
    bundle_yaml: Buffer.from(bundle_yaml),
    org_id: orgId,
    version,
    sequence: String(sequence),
    kid,
    signature: Buffer.from(signature, 'base64'),
  };
}

function apiKey({ id, name, org_id, expires_at, revoked_at }: ApiKey): ApiKeyEntry {
  return { id, name, org_id, expires_at: expires_at ?? '', revoked_at: revoked_at ?? '' };
}
