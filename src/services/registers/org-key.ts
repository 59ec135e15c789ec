import type { Credential } from '../../base/model/keys.ts';
import type { Workload } from '../../base/model/workload.ts';

/** What names a workload: two orgs may have one of the same id each, and one that counts for every org has none. */
export type WorkloadName = Pick<Workload, 'org_id' | 'workload_id'>;

/** What names a credential, in the same way. */
export type CredentialName = Pick<Credential, 'credential_id' | 'org_id'>;

/** Where a workload, and its token, is kept. */
export function workloadKey({ org_id: orgId, workload_id: id }: WorkloadName): string {
  return orgKey(orgId, id);
}

/** Where a credential is kept. */
export function credentialKey({ org_id: orgId, credential_id: id }: CredentialName): string {
  return orgKey(orgId, id);
}

/**
 * Where the sealed secret of a credential belongs.
 * @param key as {@link credentialKey} gives it; what a secret was sealed for is the id alone
 */
export function secretContext(key: string): string {
  return `credential:${key.slice(key.indexOf(' ') + 1)}`;
}

/**
 * The key of what an org has, or of what is there for every org. Ids of orgs and of what they have hold no blank
 * (decision 4.7), so that no two have one key.
 */
function orgKey(orgId: string | undefined, id: string): string {
  return orgId === undefined ? id : `${orgId} ${id}`;
}
