import { X509Certificate } from 'node:crypto';
import { timestamp } from '../../base/lib/clock.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { readAuthority } from './authority-certificate.ts';
import type { RootsOnDisk } from './roots-on-disk.ts';

/** One root that clients trust, or are to trust. */
export interface ShownRoot {
  /** Lower-case hex SHA-256 of its DER. */
  readonly fingerprint: string;
  readonly subject: string;
  /**
   * `signs`: leaves are signed by it, or by what it has signed; `next`: trusted already, signs later; `former`: trusted
   * still.
   */
  readonly role: 'signs' | 'next' | 'former';
  readonly not_before: string;
  readonly not_after: string;
}

/** Who signs, and who is trusted beside (decision 12.10). */
export interface RootStatus {
  readonly roots: readonly ShownRoot[];
  /** When the next one signs; null: there is none. */
  readonly switch_at: string | null;
  /** False for a root of an operator's own, which only he can replace. */
  readonly made_here: boolean;
}

/** @param anchorPem what clients trust of the root that signs */
export function statusOf(anchorPem: string, { next, former, isOwn }: Pick<RootsOnDisk, 'next' | 'former' | 'isOwn'>): RootStatus {
  return {
    roots: [shown(anchorPem, 'signs'), ...(next ? [shown(next.certificate, 'next')] : []), ...former.map((pem) => shown(pem, 'former'))],
    switch_at: next === undefined ? null : timestamp(next.switchAt),
    made_here: isOwn,
  };
}

function shown(pem: string, role: ShownRoot['role']): ShownRoot {
  const { x509, validity } = readAuthority(new X509Certificate(pem).raw);
  return {
    fingerprint: sha256Hex(x509.raw),
    subject: x509.subject.split('\n').join(', '),
    role,
    not_before: timestamp(validity.notBefore),
    not_after: timestamp(validity.notAfter),
  };
}
