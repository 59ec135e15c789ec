import { generateKeyPair } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { promisify } from 'node:util';
import { readAuthority } from './authority-certificate.ts';
import { certificatePem, issueLeaf, issueRoot, leafProfile, subjectOf } from './certificate.ts';

const DAY_MS = 86_400_000;
const LIFE_MS = 30 * DAY_MS;

export interface PassingCertificates {
  readonly rootPem: string;
  readonly contexts: ReadonlyMap<string, SecureContext>;
}

/**
 * A root that is kept nowhere, and a TLS context for each host that it signs for; for a server of the demo, which
 * nobody but the demo's own gateway is to believe.
 * @param now milliseconds since the epoch
 */
export async function passingCertificates(hosts: readonly string[], now: number): Promise<PassingCertificates> {
  const keys = () => promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  const [root, leaf] = await Promise.all([keys(), keys()]);
  const validity = { notBefore: now - DAY_MS, notAfter: now + LIFE_MS };
  const subject = subjectOf(root.publicKey);
  const rootDer = await issueRoot(subject, root.privateKey, validity);
  const { name } = readAuthority(rootDer);
  const issuer = { name, keyIdentifier: subject.keyIdentifier, key: root.privateKey, validity, permits: () => true };
  const profile = leafProfile(issuer, subjectOf(leaf.publicKey));
  const key = leaf.privateKey.export({ type: 'pkcs8', format: 'pem' });
  const contexts = new Map<string, SecureContext>();
  for (const host of hosts)
    contexts.set(host, createSecureContext({ key, cert: certificatePem(await issueLeaf(profile, host, validity)) }));
  return { rootPem: certificatePem(rootDer), contexts };
}
