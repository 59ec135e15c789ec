import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { systemClock } from '../../src/base/lib/clock.ts';
import { type ControlPlane, type ControlPlaneStart, startControlPlane } from '../../src/control-plane/app/control-plane.ts';
import type { ControlPlaneConfig } from '../../src/control-plane/app/control-plane-config.ts';
import type { EnrolledResponse, Versions } from '../../src/control-plane/proto/messages.ts';
import { NO_VERSIONS } from '../../src/control-plane/proto/no-versions.ts';
import { loadProtocol } from '../../src/control-plane/proto/protocol.ts';
import { type ClientIdentity, ProtocolClient } from '../../src/control-plane/proto/protocol-client.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import type { Commit } from '../../src/services/registers/commit.ts';
import { runningClock } from './fake-clock.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export const PROTOCOL = loadProtocol();
export const NOTHING_YET: Versions = NO_VERSIONS;
/** No call of a test takes so long. */
export const TIMEOUT_MS = 60_000;
const ADMIN_TOKEN = 'admin-token-of-a-test';

/** A control plane on ports of its own, and what tests do with it. */
export interface RunningControlPlane {
  readonly plane: ControlPlane;
  readonly dataDir: string;
  /** How an administrator changes something. */
  readonly commit: Commit;
  client(identity?: ClientIdentity): ProtocolClient;
  /** Makes the org if it is not there, and enrols a node of it. */
  enrol(
    orgId: string,
    nodeId: string,
  ): Promise<{ readonly client: ProtocolClient; readonly identity: ClientIdentity; readonly answer: EnrolledResponse }>;
}

export async function runControlPlane(
  t: HasTeardown,
  start: ControlPlaneStart = {},
  config: Partial<ControlPlaneConfig> = {},
): Promise<RunningControlPlane> {
  const dataDir = config.dataDir ?? tempDir(t);
  const plane = await startControlPlane(
    {
      host: '127.0.0.1',
      grpcPort: 0,
      httpPort: 0,
      adminToken: ADMIN_TOKEN,
      secretsKey: Buffer.alloc(32, 7),
      metricsToken: undefined,
      names: ['localhost', '127.0.0.1'],
      ...config,
      dataDir,
    },
    { ...start, clock: start.clock ?? systemClock },
  );
  t.teardown(() => plane.stop());
  const commit = plane.state.audit.commitFor({ principal: { kind: 'admin', id: 'admin' }, operation: 'test', from: '127.0.0.1' });
  const client = (identity?: ClientIdentity) => {
    const made = new ProtocolClient({
      address: `127.0.0.1:${plane.grpcPort}`,
      ca: plane.state.caCertificate,
      identity,
      clock: runningClock,
    });
    t.teardown(() => made.close());
    return made;
  };
  const enrol = async (orgId: string, nodeId: string) => {
    if (plane.state.registers.register.find(orgId) === undefined) await plane.state.orgs.put(orgId, {}, commit);
    const { token } = await plane.state.tokens.issue(orgId, 3_600, commit);
    const { key, csr } = newRequest();
    const request = { bootstrap_token: token, org_id: orgId, node_id: nodeId, csr, gateway_version: '0.0.0' };
    const answer = await client().call(PROTOCOL.enrolment, 'Enroll', request, TIMEOUT_MS);
    const identity = identityOf(answer, key);
    return { client: client(identity), identity, answer };
  };
  return { plane, dataDir, commit, client, enrol };
}

export function identityOf({ certificate }: Pick<EnrolledResponse, 'certificate'>, key: KeyObject): ClientIdentity {
  return { certificate: pem('CERTIFICATE', certificate), key: key.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** By which fault of the protocol a call fails, and what it says. */
export async function faultOfCall(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'none';
  } catch (error) {
    return error instanceof ProtocolError ? `${error.fault}: ${error.message}` : String(error);
  }
}

export interface RequestOptions {
  readonly curve?: 'P-256' | 'P-384' | 'ed25519';
  /** Signs with another key than the one that is named. */
  readonly foreign?: true;
}

/** A PKCS #10 request, written without the code under test. */
export function newRequest({ curve = 'P-256', foreign }: RequestOptions = {}): { readonly key: KeyObject; readonly csr: Buffer } {
  const pair = () => (curve === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: curve }));
  const { privateKey, publicKey } = pair();
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  const info = tlv(0x30, Buffer.concat([tlv(0x02, Buffer.from([0])), tlv(0x30, Buffer.alloc(0)), spki, tlv(0xa0, Buffer.alloc(0))]));
  const signer = foreign === true ? pair().privateKey : privateKey;
  const signature = sign(curve === 'ed25519' ? undefined : 'sha256', info, signer);
  const algorithm = Buffer.from(curve === 'ed25519' ? '300506032b6570' : '300a06082a8648ce3d040302', 'hex');
  const csr = tlv(0x30, Buffer.concat([info, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature]))]));
  return { key: createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' })), csr };
}

export function pem(label: string, der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

function tlv(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >>> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
