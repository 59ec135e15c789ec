import { createPrivateKey, X509Certificate } from 'node:crypto';
import { parseTime, timestamp } from '../../base/lib/clock.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { readAuthority } from './authority-certificate.ts';
import { rootName } from './certificate.ts';
import { CertificateAuthorityError, ROOT_STATE, readRotationFile, type StagedFile, stagePublicFile } from './root-files.ts';

/** What a folder remembers of its roots (decision 12.10). */
export interface RootState {
  /**
   * Fingerprints of roots that were made in this folder, the oldest first: those that `gw trust uninstall` may remove.
   */
  readonly made: readonly string[];
  /** The root that is to sign from a date on. That it stands here is what makes it one. */
  readonly next: NextRoot | undefined;
}

export interface NextRoot {
  readonly certificate: string;
  /** Milliseconds since the epoch. */
  readonly switchAt: number;
}

const FINGERPRINT = /^[0-9a-f]{64}$/;

/** @throws CertificateAuthorityError when the file is there and cannot be used */
export async function readRootState(dir: string): Promise<RootState> {
  const text = await readRotationFile(dir, ROOT_STATE);
  if (text === undefined) return { made: [], next: undefined };
  try {
    return stateOf(JSON.parse(text));
  } catch (error) {
    throw new CertificateAuthorityError(
      `${ROOT_STATE} in ${dir} cannot be read: restore it from a backup, or move it away (a rotation that is under way is then given up)`,
      { cause: error },
    );
  }
}

/** @throws CertificateAuthorityError as {@link stagePublicFile} */
export function stageRootState(dir: string, { made, next }: RootState, unique: string): Promise<StagedFile> {
  const shown = { made, ...(next && { next: { switch_at: timestamp(next.switchAt), certificate: next.certificate } }) };
  return stagePublicFile(dir, ROOT_STATE, `${JSON.stringify(shown, undefined, 2)}\n`, unique);
}

function stateOf(value: unknown): RootState {
  const { made, next } = value as { made?: unknown; next?: { switch_at?: unknown; certificate?: unknown } };
  if (!Array.isArray(made)) throw new TypeError('made is no list');
  const fingerprints = made.map(String);
  if (!fingerprints.every((one) => FINGERPRINT.test(one))) throw new TypeError('made holds something else than fingerprints');
  if (next === undefined) return { made: fingerprints, next: undefined };
  const switchAt = parseTime(String(next.switch_at));
  if (switchAt === undefined) throw new TypeError('switch_at is no time');
  const certificate = String(next.certificate);
  if (!isOwnRoot(certificate)) throw new TypeError('the next certificate is no root of a gateway');
  return { made: fingerprints, next: { certificate, switchAt } };
}

/** Whether a gateway has made this root: it signs itself, and its name is the one that its key gives it. */
export function isOwnRoot(pem: string): boolean {
  try {
    const { x509, selfSigned, keyIdentifier } = readAuthority(new X509Certificate(pem).raw);
    return selfSigned && keyIdentifier !== undefined && x509.subject.split('\n').includes(`CN=${rootName(keyIdentifier)}`);
  } catch {
    // What cannot be read is not ours.
    return false;
  }
}

export interface SplitRoots {
  /** Of the key, with what stands behind it of a company's chain. */
  readonly signing: readonly string[];
  /** Trusted beside it: to come, or former. */
  readonly others: readonly string[];
}

/**
 * Tells the root that signs from those of a gateway that are trusted beside it. The key decides, so that a switch is
 * the rename of one file.
 */
export function splitRoots(pem: string, keyPem: string): SplitRoots {
  const all = certificatesIn(pem);
  if (all.length < 2 || !all.every(isOwnRoot)) return { signing: all, others: [] };
  const found = all.findIndex((one) => belongTogether(one, keyPem));
  const at = Math.max(0, found);
  return { signing: all.slice(at, at + 1), others: all.filter((_, index) => index !== at) };
}

/** False also where one of the two cannot be read. */
export function belongTogether(pem: string, keyPem: string): boolean {
  try {
    return new X509Certificate(pem).checkPrivateKey(createPrivateKey(keyPem));
  } catch {
    return false;
  }
}
