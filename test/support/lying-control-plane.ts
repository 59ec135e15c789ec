import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type {
  CheckInResponse,
  ControlPlaneCalls,
  EnrolledResponse,
  EnrolmentCalls,
  OrgState,
  SignedBundle,
  Stale,
} from '../../src/control-plane/proto/messages.ts';
import type { Peer } from '../../src/control-plane/proto/peer.ts';
import { loadProtocol } from '../../src/control-plane/proto/protocol.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { type Handlers, ProtocolServer } from '../../src/control-plane/proto/protocol-server.ts';
import { proveInclusion, recordLeaf } from '../../src/ledger/inclusion-proof.ts';
import { type MerkleRoot, NO_ROOT, signRoot } from '../../src/ledger/merkle-root.ts';
import { treeRoot } from '../../src/ledger/merkle-tree.ts';
import { type TestCa, testCa } from './certificates.ts';
import { PLACE_BUNDLE, PLACE_ORG, PLACE_SECRET, PLACE_WORKLOAD } from './control-plane-place.ts';
import { OPEN_GUARD } from './open-guard.ts';
import { orgSaid, staleOf } from './org-said.ts';
import type { HasTeardown } from './temp-dir.ts';

const DAY_MS = 86_400_000;
const LEDGER_KID = 'ledger-1';
const BUNDLE_KID = 'bundle-1';

type Calls = ControlPlaneCalls;
type CallHandlers = Handlers<Calls, 'StreamUpdates'>;

/**
 * A control plane in this process that says what a test lets it say: by itself the truth, as the smallest one would.
 */
export class LyingControlPlane {
  readonly ca: TestCa;
  readonly port: number;
  readonly bootstrapToken: string;
  readonly bundleKey = generateKeyPairSync('ed25519');
  readonly ledgerKey = generateKeyPairSync('ed25519');
  /** Hex, in the order of their coming, each as often as it came. */
  readonly hashes: string[] = [];
  /** Calls by their names. */
  readonly calls: string[] = [];
  org: OrgState = orgSaid({ stale: null });
  bundle: SignedBundle;
  /** When the certificates end that it gives out. */
  certificatesEnd: Date | undefined;
  /** What it made certificates of, in the order of their coming. */
  readonly requests: { readonly csr: Uint8Array; readonly nodeId: string }[] = [];
  /** Stands in the place of what it would do. */
  instead: Partial<CallHandlers> = {};
  readonly #stale = new Set<keyof Stale>(['policy', 'workloads', 'credentials', 'keys']);

  private constructor(ca: TestCa, port: number) {
    this.ca = ca;
    this.port = port;
    this.bootstrapToken = bootstrapTokenOf(ca);
    this.bundle = this.signed(PLACE_BUNDLE, 1);
  }

  static async start(t: HasTeardown, ca = testCa('Control plane')): Promise<LyingControlPlane> {
    const { certPem, keyPem } = ca.leaf({ hosts: ['localhost', '127.0.0.1'] });
    // It shows its CA too, so that who has the CA's hash alone can check it.
    const identity = { ca: ca.certPem, certificate: `${certPem}${ca.certPem}`, key: keyPem };
    const server = new ProtocolServer({ host: '127.0.0.1', port: 0, identity, log: silentLogger });
    const self: { made?: LyingControlPlane } = {};
    const made = (): LyingControlPlane => {
      if (self.made === undefined) throw new ProtocolError('UNAVAILABLE', 'it is not there yet');
      return self.made;
    };
    const protocol = loadProtocol();
    server.add<EnrolmentCalls>(
      protocol.enrolment,
      { Enroll: async (request) => made().enrolled(request.csr, request.node_id) },
      OPEN_GUARD,
    );
    server.add<Calls, 'StreamUpdates'>(protocol.controlPlane, handlersOf(made), OPEN_GUARD);
    const port = await server.open();
    t.teardown(() => server.close(AbortSignal.abort()));
    self.made = new LyingControlPlane(ca, port);
    return self.made;
  }

  /** What was changed is stale until it is fetched. */
  changed(...names: readonly (keyof Stale)[]): void {
    for (const name of names) this.#stale.add(name);
  }

  /** A bundle as it is signed for gateways, with this key or our own. */
  signed(yaml: string, sequence: number, key: KeyObject = this.bundleKey.privateKey, kid = BUNDLE_KID): SignedBundle {
    const bytes = Buffer.from(yaml);
    const version = String(sequence);
    const text = canonicalJson({ schema: 'gw.signed_bundle.v1', org_id: PLACE_ORG, version, sequence, sha256: sha256Hex(bytes) });
    const signature = sign(undefined, Buffer.from(text), key);
    return { bundle_yaml: bytes, org_id: PLACE_ORG, version, sequence: String(sequence), kid, signature };
  }

  /** A root over these hashes, as the first of the chain. */
  root(hashes: readonly string[], key: KeyObject = this.ledgerKey.privateKey, kid = LEDGER_KID): MerkleRoot {
    return signRoot(
      {
        schema: 'gw.merkle_root.v1',
        batch_id: 'batch-1',
        org_id: PLACE_ORG,
        sequence: 1,
        prev_root_hash: NO_ROOT,
        root_hash: treeRoot(hashes.map(recordLeaf)).toString('hex'),
        leaf_count: hashes.length,
        closed_at: '2026-01-01T00:00:00.000Z',
      },
      kid,
      key,
    );
  }

  /** @throws ProtocolError for a caller without a certificate */
  admit(name: keyof Calls, peer: Peer): void {
    this.calls.push(name);
    if (peer.certificate === undefined) throw new ProtocolError('UNAUTHENTICATED', 'no certificate was shown');
  }

  state(fetched?: keyof Stale): OrgState {
    if (fetched !== undefined) this.#stale.delete(fetched);
    return { ...this.org, stale: staleOf(...this.#stale) };
  }

  checkIn(): CheckInResponse {
    return { org: this.state(), node_id: 'node-1', at: new Date().toISOString() };
  }

  proofOf(hash: string, hashes: readonly string[] = [hash], root: MerkleRoot = this.root(hashes)): string {
    return JSON.stringify(proveInclusion(hashes, hashes.indexOf(hash), root));
  }

  enrolled(csr: Uint8Array, nodeId: string): EnrolledResponse {
    this.calls.push('Enroll');
    return this.certificateFor(csr, nodeId);
  }

  certificateFor(csr: Uint8Array, nodeId: string): EnrolledResponse {
    this.requests.push({ csr, nodeId });
    const now = Date.now();
    const pem = this.ca.answer(
      csr,
      { commonName: nodeId, organization: PLACE_ORG },
      { notBefore: new Date(now - DAY_MS), notAfter: this.certificatesEnd ?? new Date(now + 90 * DAY_MS) },
    );
    const made = new X509Certificate(pem);
    return {
      certificate: made.raw,
      ca_certificate: new X509Certificate(this.ca.certPem).raw,
      trusted_ca_certificates: [],
      expires_at: new Date(made.validTo).toISOString(),
      org: this.state(),
    };
  }
}

/** As it is given out: a secret, and the SHA-256 of the CA that the first connection is to meet. */
export function bootstrapTokenOf(ca: TestCa): string {
  const digest = createHash('sha256').update(new X509Certificate(ca.certPem).raw).digest('base64url');
  return `gwb_${randomBytes(32).toString('base64url')}.${digest}`;
}

function rawKey(key: KeyObject): Uint8Array {
  const { x = '' } = key.export({ format: 'jwk' });
  return Buffer.from(x, 'base64url');
}

function handlersOf(plane: () => LyingControlPlane): CallHandlers {
  /** What the test has set, else what is true. */
  const or = <K extends Exclude<keyof Calls, 'StreamUpdates'>>(
    name: K,
    truth: (request: Calls[K]['request'], plane: LyingControlPlane) => Calls[K]['response'],
  ): CallHandlers[K] => {
    const handler = async (request: Calls[K]['request'], peer: Peer): Promise<Calls[K]['response']> => {
      const self = plane();
      self.admit(name, peer);
      const instead: unknown = self.instead[name];
      if (typeof instead === 'function') return (instead as (request: unknown, peer: Peer) => Promise<Calls[K]['response']>)(request, peer);
      return truth(request, self);
    };
    return handler as CallHandlers[K];
  };
  return {
    Renew: or('Renew', ({ csr }, self) => self.certificateFor(csr, 'node-1')),
    CheckIn: or('CheckIn', (_request, self) => self.checkIn()),
    FetchBundle: or('FetchBundle', (_request, self) => ({ org: self.state('policy'), bundle: self.bundle })),
    FetchWorkloads: or('FetchWorkloads', (_request, self) => ({
      org: self.state('workloads'),
      version: '1',
      workloads: [JSON.stringify({ workload_id: PLACE_WORKLOAD, org_id: PLACE_ORG, name: 'App' })],
      next_cursor: '',
    })),
    FetchCredentials: or('FetchCredentials', (_request, self) => ({
      org: self.state('credentials'),
      version: '1',
      credentials: [
        {
          credential: JSON.stringify({
            credential_id: 'cred-openai',
            org_id: PLACE_ORG,
            connector_id: 'openai',
            mode: 'alias',
            type: 'ai_provider',
            distribution: 'org_wide',
          }),
          secret: PLACE_SECRET,
          node_ids: [],
        },
      ],
      next_cursor: '',
    })),
    FetchExportConfig: or('FetchExportConfig', (_request, self) => ({
      org: self.state('export_config'),
      version: '1',
      destinations: [],
      inherit_org_defaults: false,
      next_cursor: '',
    })),
    FetchAddons: or('FetchAddons', (_request, self) => ({ org: self.state('addons'), version: '1', addons: [] })),
    FetchOverlays: or('FetchOverlays', (_request, self) => ({ org: self.state('overlays'), version: '1', overlays: [] })),
    Write: or('Write', (_request, self) => ({ org: self.state(), results: [], error: '' })),
    FetchKeys: or('FetchKeys', (_request, self) => ({
      org: self.state('keys'),
      version: '1',
      keys: [
        { kid: BUNDLE_KID, alg: 'ed25519', use: 'bundle', public_key: rawKey(self.bundleKey.publicKey), not_before: '', not_after: '' },
        { kid: LEDGER_KID, alg: 'ed25519', use: 'ledger', public_key: rawKey(self.ledgerKey.publicKey), not_before: '', not_after: '' },
      ],
      ca_certificates: [],
    })),
    LookUpApiKey: or('LookUpApiKey', (_request, self) => ({ org: self.state(), key: null, version: '1' })),
    SubmitHashes: or('SubmitHashes', ({ hashes }, self) => {
      self.hashes.push(...hashes.map((hash) => Buffer.from(hash).toString('hex')));
      return { org: self.state(), acknowledged: hashes.length, at: new Date().toISOString() };
    }),
    CompareLedger: or('CompareLedger', (_request, self) => ({ org: self.state(), newest_root: '', restore_root: '', behind: false })),
    FetchProof: or('FetchProof', ({ hash }, self) => ({
      org: self.state(),
      status: 'verified',
      inclusion_proof: self.proofOf(Buffer.from(hash).toString('hex')),
    })),
    ReportTelemetry: or('ReportTelemetry', (_request, self) => ({ org: self.state(), interval_seconds: 0 })),
    StreamUpdates: async (_request, peer, { send, signal }) => {
      const self = plane();
      self.admit('StreamUpdates', peer);
      await send({ sequence: '1', at: new Date().toISOString(), org: self.state(), kind: 'snapshot', resync: false });
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        else signal.addEventListener('abort', () => resolve(), { once: true });
      });
    },
  };
}
