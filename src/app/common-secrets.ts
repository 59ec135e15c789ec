import { certificatesIn } from '../base/lib/pem.ts';
import type { Sealed, SecretBox } from '../base/lib/secret-box.ts';
import type { CertificateAuthority } from '../inbound/ca/certificate-authority.ts';
import { fingerprintOf } from '../inbound/ca/roots-on-disk.ts';
import { unlessConflict } from '../services/registers/commit.ts';
import type { Entity, Store } from '../storage/contract/store.ts';

/*
 * What nodes on one database must have in common, and each is given by itself: the key that seals what is secret there,
 * and the root that clients trust. The first node says which; each later start is held against that.
 */

const SPACE = 'common';
const SECRETS = 'secrets_key';
const ROOT = 'root';

/** @throws Error in one line where what nodes share was sealed with a key that this one does not have */
export async function sameSecrets(store: Store, box: SecretBox): Promise<void> {
  await common(store, SECRETS, (found) => {
    if (found === undefined) return { sealed: box.seal(SPACE, SECRETS) };
    const { sealed } = found as { readonly sealed: Sealed };
    try {
      box.open(sealed, SECRETS);
    } catch (cause) {
      const told =
        'GW_SECRETS_KEY is another than that of the nodes which have this database: give all of them the same key (of the first one it is in its GW_DATA_DIR, in secrets-key)';
      throw new Error(told, { cause });
    }
    const again = box.rewrap(sealed, SECRETS);
    return again && { sealed: again };
  });
}

/** @throws Error in one line where clients would be shown another root than by the other nodes */
export async function sameRoot(
  store: Store,
  { rootPem, fingerprint }: Pick<CertificateAuthority, 'rootPem' | 'fingerprint'>,
): Promise<void> {
  await common(store, ROOT, (found) => {
    if (found === undefined) return { fingerprint };
    const { fingerprint: known } = found as { readonly fingerprint: string };
    if (known === fingerprint) return undefined;
    const own = certificatesIn(rootPem).map(fingerprintOf);
    if (!own.includes(known))
      throw new Error(
        'GW_CA_DIR has another root than the nodes which have this database, so that clients would trust one and meet the other: copy the folder of the first node',
      );
    return { fingerprint };
  });
}

/** @param next what is to be stored; undefined: it stays as it is */
async function common(store: Store, key: string, next: (found: unknown) => object | undefined): Promise<void> {
  for (;;) {
    const found: Entity | undefined = await store.entity(SPACE, key);
    const value = next(found?.value);
    if (value === undefined) return;
    const expect = [{ space: SPACE, key, version: found?.version }];
    if (await unlessConflict(store.commit(undefined, [{ op: 'put', space: SPACE, key, value }], expect))) return;
  }
}
