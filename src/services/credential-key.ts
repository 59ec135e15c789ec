import type { Credential } from '../base/model/credential.ts';

/** What names a credential: two orgs may have one of the same id each, and one that is there for every org has none. */
export type CredentialName = Pick<Credential, 'credential_id' | 'org_id'>;

/** Where a credential is kept. Ids of orgs and credentials hold no blank (decision 4.7), so that no two have one key. */
export function credentialKey({ org_id: orgId, credential_id: id }: CredentialName): string {
  return orgId === undefined ? id : `${orgId} ${id}`;
}

/** Where the sealed secret of a credential belongs. @param key as {@link credentialKey} gives it; what a secret was sealed for is the id alone */
export function secretContext(key: string): string {
  return `credential:${key.slice(key.indexOf(' ') + 1)}`;
}
