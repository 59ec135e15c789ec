import type { X509Certificate } from 'node:crypto';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import { bracketHost } from '../base/lib/host.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import type { Authority } from '../base/model/arrival.ts';
import type { EnrolledResponse, OrgState } from '../control-plane/proto/messages.ts';
import type { Protocol } from '../control-plane/proto/protocol.ts';
import { ProtocolClient } from '../control-plane/proto/protocol-client.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import { type CertificateRequest, requestCertificate } from './certificate-request.ts';
import { EnrolmentError, type EnrolmentFault } from './enrolment-error.ts';
import { type NodeIdentity, nodeIdentity } from './node-identity.ts';
import { askPatiently } from './patience.ts';
import { certificatesOfFile, fingerprintOf, shownChain } from './shown-authority.ts';
import { type BootstrapToken, readBootstrapToken } from './shown-token.ts';

const TIMEOUT_MS = 10_000;
/**
 * How long a control plane that asks for patience is asked again: many gateways may start behind one address at once.
 */
const PATIENCE_MS = 30_000;

export interface NodeEnrolment {
  readonly protocol: Protocol;
  readonly address: Authority;
  readonly orgId: string;
  readonly nodeId: string;
  /** `GW_BOOTSTRAP_TOKEN`. */
  readonly token: string;
  /** `GW_CP_CA_FILE`. */
  readonly caFile: string | undefined;
  readonly clock: Clock;
}

export interface Enrolled {
  readonly identity: NodeIdentity;
  readonly org: OrgState | undefined;
}

/** What an operator does who needs a bootstrap token (decision 13.7). */
export function howToGetToken(orgId: string): string {
  return `Make one where the control plane runs (gw control-plane token create ${orgId}), set GW_BOOTSTRAP_TOKEN to it and start again.`;
}

/**
 * Makes a key and has the control plane sign its certificate (decision 13.7). The token is shown only to a server whose
 * certificate is of the CA that the token or `GW_CP_CA_FILE` names.
 * @throws EnrolmentError
 */
export async function enrol(options: NodeEnrolment): Promise<Enrolled> {
  const { orgId, nodeId, clock } = options;
  const token = readBootstrapToken(options.token);
  if (token === undefined)
    throw new EnrolmentError('bad_token', `GW_BOOTSTRAP_TOKEN is no bootstrap token (gwb_…). ${howToGetToken(orgId)}`);
  const ca = await authorityOf(options, token);
  const request = await requestCertificate(orgId, nodeId);
  const answer = await enrolledBy(options, token, ca, request);
  return { identity: identityFrom(answer, request, { cas: [ca], orgId, nodeId, clock }), org: answer.org ?? undefined };
}

/** @throws EnrolmentError `ca_mismatch`, `ca_not_shown`, `unreachable`, `bad_token` */
async function authorityOf(options: NodeEnrolment, token: BootstrapToken): Promise<X509Certificate> {
  const { caFile, address, clock } = options;
  const given = caFile === undefined ? undefined : await certificatesOfFile(caFile);
  const named = token.caSha256;
  if (given !== undefined && named !== undefined && !given.some(({ raw }) => fingerprintOf(raw).equals(named))) {
    throw mismatch('GW_CP_CA_FILE is another CA than the one that the bootstrap token is for', 'the file as GET /v1/ca.crt serves it');
  }
  if (named === undefined && given === undefined)
    throw new EnrolmentError(
      'bad_token',
      `The bootstrap token does not say which CA it is for, and GW_CP_CA_FILE is not set. ${howToGetToken(options.orgId)}`,
    );
  const chain = await shownChain(address, clock, TIMEOUT_MS).catch((error: unknown) => {
    throw error instanceof EnrolmentError ? unreachable(address, error) : error;
  });
  const isNamed = ({ raw }: X509Certificate): boolean => named === undefined || fingerprintOf(raw).equals(named);
  const known = (given ?? chain).filter(isNamed);
  const [own] = chain;
  const where = placeOf(address);
  const found = known.find((one) => own?.checkIssued(one) && own.verify(one.publicKey));
  if (found !== undefined) return found;
  if (known.length === 0 && chain.length === 1)
    throw new EnrolmentError('ca_not_shown', `The control plane at ${where} does not show its CA: set GW_CP_CA_FILE (GET /v1/ca.crt).`);
  throw mismatch(
    `What answers at ${where} is not the control plane that the bootstrap token is for: its certificate is of another CA`,
    'GW_CP_ADDR',
  );
}

function mismatch(what: string, check: string): EnrolmentError {
  return new EnrolmentError(
    'ca_mismatch',
    `ca_mismatch: ${what}. Nothing was sent to it. Check ${check}, and that the token is of this control plane.`,
  );
}

function unreachable(address: Authority, cause: Error): EnrolmentError {
  return new EnrolmentError(
    'unreachable',
    `The control plane at ${placeOf(address)} (GW_CP_ADDR) cannot be reached: ${reasonOf(address, cause)}. The first start of a gateway needs it; start again when it is there.`,
    { cause },
  );
}

/** What two mistakes in the address look like, in the words of TLS and of gRPC, and what each means here. */
const MISTAKES: readonly (readonly [says: RegExp, means: (host: string) => string])[] = [
  [
    /wrong version number|packet length too long|record layer failure/i,
    () => 'what answers there speaks no TLS (the port for gateways is CP_GRPC_PORT of the control plane, not CP_HTTP_PORT)',
  ],
  [
    /ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate/,
    (host) => `its certificate is not for ${host} (start the control plane with CP_NAMES that has this name)`,
  ],
];

function reasonOf({ host }: Authority, { message }: Error): string {
  const known = MISTAKES.find(([says]) => says.test(message));
  return known === undefined ? message.trim() : known[1](host);
}

function placeOf({ host, port }: Authority): string {
  return `${bracketHost(host)}:${port}`;
}

/** What the control plane's refusals mean here; everything else is that it cannot be reached. */
const REFUSALS: Readonly<Record<string, EnrolmentFault>> = {
  UNAUTHENTICATED: 'token_refused',
  PERMISSION_DENIED: 'not_admitted',
  NOT_FOUND: 'not_admitted',
  INVALID_ARGUMENT: 'not_admitted',
};

async function enrolledBy(
  options: NodeEnrolment,
  token: BootstrapToken,
  ca: X509Certificate,
  { csr }: CertificateRequest,
): Promise<EnrolledResponse> {
  const { protocol, address, orgId, nodeId, clock } = options;
  const client = new ProtocolClient({ address: placeOf(address), ca: ca.toString(), identity: undefined, clock });
  const said = { bootstrap_token: token.text, org_id: orgId, node_id: nodeId, csr, gateway_version: packageVersion() };
  try {
    return await askPatiently(clock, PATIENCE_MS, () => client.call(protocol.enrolment, 'Enroll', said, TIMEOUT_MS));
  } catch (error) {
    throw error instanceof ProtocolError ? refusalBy(error, options) : error;
  } finally {
    client.close();
  }
}

function refusalBy(error: ProtocolError, { address, orgId, nodeId }: NodeEnrolment): EnrolmentError {
  const fault = REFUSALS[error.fault];
  if (fault === 'token_refused')
    return new EnrolmentError(fault, `The control plane takes no such bootstrap token: ${error.message}. ${howToGetToken(orgId)}`, {
      cause: error,
    });
  if (fault === 'not_admitted')
    return new EnrolmentError(
      fault,
      `The control plane does not enrol node ${nodeId} of org ${orgId} with this bootstrap token: ${error.message}. Check GW_ORG_ID and GW_NODE_ID. ${howToGetToken(orgId)}`,
      { cause: error },
    );
  return unreachable(address, error);
}

interface Expected {
  /** Those by which the control plane is known: its answer names one of them at least. */
  readonly cas: readonly X509Certificate[];
  readonly orgId: string;
  readonly nodeId: string;
  readonly clock: Clock;
}

/**
 * What the control plane has made, if it is what was asked for.
 * @throws EnrolmentError `bad_answer`, `ca_mismatch`, `other_identity`
 */
export function identityFrom(
  answer: EnrolledResponse,
  { keyPem }: CertificateRequest,
  { cas, orgId, nodeId, clock }: Expected,
): NodeIdentity {
  // Who is known by one CA says which others are to be trusted, while one follows another.
  const answered = [answer.ca_certificate, ...answer.trusted_ca_certificates];
  if (!answered.some((one) => cas.some(({ raw }) => fingerprintOf(one).equals(fingerprintOf(raw)))))
    throw new EnrolmentError('ca_mismatch', 'ca_mismatch: the control plane answered with another CA than its own certificate is of.');
  let identity: NodeIdentity;
  try {
    identity = nodeIdentity(keyPem, answer.certificate, answered);
  } catch (error) {
    // biome-ignore lint/style/useErrorCause: the cause is in the third argument
    throw new EnrolmentError('bad_answer', `The control plane answered with a certificate that cannot be used: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  if (identity.orgId !== orgId || identity.nodeId !== nodeId)
    throw new EnrolmentError(
      'other_identity',
      `The control plane answered with the certificate of node ${identity.nodeId} of org ${identity.orgId}.`,
    );
  if (identity.notAfter <= clock.now())
    throw new EnrolmentError(
      'bad_answer',
      `The control plane answered with a certificate that ended at ${timestamp(identity.notAfter)}: one of the clocks is wrong.`,
    );
  return identity;
}
