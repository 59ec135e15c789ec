import { type Clock, timestamp } from '../base/lib/clock.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { type Enrolled, enrol, howToGetToken, type NodeEnrolment } from './enrol.ts';
import { EnrolmentError } from './enrolment-error.ts';
import { readNodeFile, writeNodeFile } from './node-file.ts';
import { authoritiesOf, type NodeIdentity, sha256Of } from './node-identity.ts';
import { certificatesOfFile, fingerprintOf } from './shown-authority.ts';

export interface StartIdentityOptions extends Omit<NodeEnrolment, 'token'> {
  /** `GW_KEY_DIR` */
  readonly keyDir: string;
  /** `GW_BOOTSTRAP_TOKEN` */
  readonly token: string | undefined;
  /** The control plane has said that the certificate counts no longer. */
  readonly revoked: boolean;
  readonly log: Logger;
}

/**
 * Whom this gateway is to its control plane: from the folder, or enrolled now (decision 13.7). A certificate that is
 * valid needs neither token nor control plane. One that has ended or was revoked is replaced where there is a token,
 * and kept where that fails: the gateway then serves without contact.
 * @throws EnrolmentError for a first start that cannot be enrolled, and for a folder that is another's
 */
export async function identityAtStart(options: StartIdentityOptions): Promise<Enrolled> {
  const kept = await readNodeFile(options.keyDir);
  if (kept === undefined) return await enrolNow(options);
  await refuseOther(kept, options);
  const why = whyReplaced(kept, options);
  if (why === undefined) return { identity: kept, org: undefined };
  const { log, orgId, token } = options;
  if (token === undefined) {
    log.error({}, `${why}: serving without contact to the control plane. ${howToGetToken(orgId)}`);
    return { identity: kept, org: undefined };
  }
  try {
    return await enrolNow(options);
  } catch (error) {
    log.error(
      { reason: messageOf(error) },
      `${why}, and enrolling it anew has failed: serving without contact to the control plane. ${howToGetToken(orgId)}`,
    );
    return { identity: kept, org: undefined };
  }
}

async function enrolNow(options: StartIdentityOptions): Promise<Enrolled> {
  const { token, orgId, nodeId, keyDir, log } = options;
  if (token === undefined)
    throw new EnrolmentError(
      'no_token',
      `GW_CP_ADDR is set, and this gateway is not enrolled (no certificate in GW_KEY_DIR ${keyDir}). ${howToGetToken(orgId)}`,
    );
  const enrolled = await enrol({ ...options, token });
  await writeNodeFile(keyDir, enrolled.identity);
  log.info({ org_id: orgId, node_id: nodeId, expires_at: timestamp(enrolled.identity.notAfter) }, 'enrolled with the control plane');
  return enrolled;
}

async function refuseOther(kept: NodeIdentity, { orgId, nodeId, keyDir, caFile }: StartIdentityOptions): Promise<void> {
  if (kept.orgId !== orgId || kept.nodeId !== nodeId)
    throw new EnrolmentError(
      'other_identity',
      `The certificate in GW_KEY_DIR (${keyDir}) is that of node ${kept.nodeId} of org ${kept.orgId}, and this is node ${nodeId} (GW_NODE_ID) of org ${orgId} (GW_ORG_ID). Set these as they were, or name another folder and enrol the node.`,
    );
  if (caFile === undefined) return;
  const known = new Set([...authoritiesOf(kept).map(sha256Of), ...kept.formerCas]);
  if (!(await certificatesOfFile(caFile)).some(({ raw }) => known.has(fingerprintOf(raw).toString('hex'))))
    throw new EnrolmentError(
      'ca_mismatch',
      `ca_mismatch: GW_CP_CA_FILE is another CA than the one that this node was enrolled with. Check it; for another control plane name another GW_KEY_DIR and enrol the node.`,
    );
}

function whyReplaced(
  { notAfter }: NodeIdentity,
  { revoked, clock }: { readonly revoked: boolean; readonly clock: Clock },
): string | undefined {
  if (revoked) return 'The control plane has revoked the certificate of this node';
  return notAfter <= clock.now() ? `The certificate of this node ended at ${timestamp(notAfter)}` : undefined;
}
