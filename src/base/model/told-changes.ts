import type { AuditChange, AuditEntry } from './audit-entry.ts';

/** Members that say nothing to a person who reads an entry. */
const PASSED_OVER: readonly string[] = [
  ...['org_id', 'created_at', 'updated_at', 'due', 'share.caller', 'share.org', 'folder_hash', 'put_at', 'content_hash', 'taken_at'],
  ...['credential.org_id', 'credential.created_at', 'credential.updated_at', 'revision', 'value.org_id', 'signature'],
  // Who it was stands above.
  ...['decided_by_principal', 'released_by_principal'].flatMap((member) => ['id', 'kind', 'name'].map((part) => `${member}.${part}`)),
];
/** What the store keeps beside a thing so that it is found, or told. */
const BESIDE: readonly string[] = [
  ...['outbox', 'approval_pending', 'quarantine_active', 'alert_subscription_of', 'custom_connector_host'],
  ...['cp_versions', 'cp_update', 'remote_bundle_highest'],
];
/** What rules stand in: its hashes say nothing beside them. */
const TEXTS: readonly string[] = ['policy_overlay', 'cp_overlay', 'cp_bundle', 'remote_bundle'];

/**
 * Whether a change tells a person more than the head of its entry does: what stands there already, when it was, and
 * what the store keeps for itself are left out. Whoever wants all asks for the entry itself (decision 9.6).
 */
export function tellsMore(
  { entity, member, before_value: was, after_value: is }: AuditChange,
  { object, object_name: name, changes }: AuditEntry,
): boolean {
  if (PASSED_OVER.includes(member) || BESIDE.includes(entity)) return false;
  if (TEXTS.includes(entity) && changes.some(({ rule }) => rule !== undefined)) return false;
  if (member === 'bundle_yaml' && changes.some((one) => one.entity === entity && one.member === 'version')) return false;
  return was !== undefined || is === undefined || (is !== object && is !== name);
}
