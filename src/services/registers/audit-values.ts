import { canonicalJson } from '../../base/json/jcs.ts';
import { shorten } from '../../base/lib/text.ts';

/** Characters of a text that an entry shows. */
const MOST_TEXT = 200;

const KEY = ['id', 'org_id', 'kind', 'name', 'key_prefix', 'scopes', 'session', 'created_at', 'expires_at', 'revoked_at'];

const CREDENTIAL = [
  'credential',
  'credential_id',
  'org_id',
  'connector_id',
  'mode',
  'type',
  'distribution',
  'name',
  'billing_owner',
  'target_hosts',
  'node_ids',
  'secret_source',
  'created_at',
  'updated_at',
];

const EXPORT = ['id', 'org_id', 'name', 'kind', 'config.format', 'config.address', 'enabled', 'node_id', 'event_types', 'created_at'];

/**
 * Which members of a thing are no secret, by what the store calls it: their values stand in the audit trail. Every
 * other value is a hash there, so that what is new is hidden until somebody has looked at it (decision 9.6). A name
 * stands for all that is below it; `*`: all members.
 */
const PLAIN: Readonly<Record<string, readonly string[]>> = {
  workload: ['*'],
  project: ['*'],
  budget_limit: ['*'],
  budget_override: ['*'],
  org_defaults: ['*'],
  org_status: ['*'],
  org_plan: ['*'],
  org_addons: ['*'],
  auto_allowed: ['*'],
  rate_limit: ['*'],
  rate_limit_org: ['*'],
  rate_limit_workload: ['*'],
  alert_subscription: ['*'],
  delegation_revoked: ['*'],
  export_inheritance: ['*'],
  custom_connector: ['*'],
  quarantine: ['*'],
  price: ['*'],
  root_certificates: ['*'],
  forgotten_node: ['*'],
  // As `audit-policy.ts` gives it, without what may be a secret.
  policy_rule: ['*'],
  // How far a limit was told of, and what else is kept to find a thing by.
  budget_alerted: ['*'],
  budget_alert_posted: ['*'],
  budget_refused: ['*'],
  alert_subscription_of: ['*'],
  alert_subscription_alerted: ['*'],
  alert_history_by_org: ['*'],
  approval_pending: ['*'],
  quarantine_active: ['*'],
  stops: ['*'],
  custom_connector_host: ['*'],
  export_cursor: ['*'],
  export_dead_letter_by_destination: ['*'],
  export_dead_letter_by_org: ['*'],
  api_key: KEY,
  management_key: KEY,
  // By the hash the key is found; it opens nothing.
  chat_user: [...['chat_user_id', 'org_id', 'platform', 'team_id', 'team_name', 'user_id', 'name', 'key_id', 'key_name', 'created_at']],
  console_session: ['id', 'kind', 'key_id', 'org_id', 'made_at', 'last_seen_at', 'expires_at', 'address', 'browser'],
  // What goes with it is the secret, sealed; `env` is the name of the variable that holds it. A control plane shows one
  // without it.
  credential: [...CREDENTIAL, 'env'],
  // What a receiver has answered may repeat its address, and that of a chat is its key.
  alert_history: [
    ...['alert_id', 'at', 'attempts', 'channel_id', 'channel_kind', 'channel_name', 'event', 'org_id'],
    ...['outcome', 'subscription_id', 'test', 'title'],
  ],
  export_dead_letter: ['at', 'attempts', 'dead_letter_id', 'destination_id', 'event_id', 'event_type', 'org_id', 'record_id'],
  // The address of a chat is its key.
  alert_channel: ['channel_id', 'org_id', 'name', 'kind', 'config.to_addresses', 'enabled', 'created_at'],
  export_destination: EXPORT,
  // Rules may hold what they send.
  policy_overlay: ['org_id', 'level', 'node_id', 'put_at'],
  // What a bundle is called, and how it is read; never its text.
  policy: ['bundle_id', 'version', 'source', 'content_hash', 'merge_strategy', 'stop_on', 'folder_hash', 'put_at'],
  // Which list it is; its text has a size of megabytes. Of an address the name has what is no secret.
  price_list: [
    ...['list.kind', 'list.name', 'list.date', 'list.kept', 'list.over', 'list.sha256', 'list.taken_at', 'list.taken_by'],
    ...['revision', 'seen.sha256'],
  ],
  approval: ['status', 'decided_by', 'decided_by_principal', 'decided_by_note', 'decided_at', 'decision_reason', 'expires_at'],
  // At the control plane: what is kept of an org, and of what it gives to nodes all but texts of policies and what is
  // sealed.
  cp_org: ['*'],
  cp_addon: ['*'],
  cp_workload: ['*'],
  cp_node_seen: ['*'],
  cp_update: ['*'],
  cp_versions: ['*'],
  cp_node: ['org_id', 'node_id', 'enrolled_at', 'revoked_at'],
  cp_signing_key: ['*'],
  ledger_restore: ['*'],
  cp_bootstrap_token: ['expires_at', 'org_id', 'used_at'],
  cp_api_key: KEY,
  cp_bundle: ['org_id', 'bundle_id', 'version', 'sequence', 'kid', 'updated_at'],
  cp_overlay: ['id', 'org_id', 'level', 'node_id', 'put_at', 'kid'],
  cp_credential: ['org_id', ...CREDENTIAL.map((member) => `value.${member}`)],
  cp_export_destination: ['org_id', ...EXPORT.map((member) => `value.${member}`)],
};

/** Stands for a value that may be a secret in one that is shown. */
export const NOT_SHOWN = '(not shown)';

/**
 * What an entry shows of a value: a text as it is, anything else as JSON, of what is long the beginning; undefined: its
 * hash alone.
 */
export function shownValue(entity: string, member: string, value: unknown): string | undefined {
  if (value === NOT_SHOWN) return undefined;
  const plain = PLAIN[entity];
  if (plain === undefined || !plain.some((name) => name === '*' || member === name || member.startsWith(`${name}.`))) return undefined;
  return shorten((typeof value === 'string' ? value : canonicalJson(value)).toWellFormed(), MOST_TEXT);
}

/** Kinds of things that are no more than what the gateway keeps beside those that people have made. */
const TOLD_WITHOUT_VALUES: ReadonlySet<string> = new Set(['workload_token', 'export_dead_letter', 'chat_link', 'console_link']);

/** Whether people know what the store calls so. */
export function isToldEntity(entity: string): boolean {
  return Object.hasOwn(PLAIN, entity) || TOLD_WITHOUT_VALUES.has(entity);
}

type Members = Readonly<Record<string, unknown>>;

/** How people call a thing whose id says little. */
const NAMES: Readonly<Record<string, (value: Members) => unknown>> = {
  project: ({ display_name: name }) => name,
  budget_limit: ({ scope, scope_id: id }) => (typeof id === 'string' ? `${String(scope)} ${id}` : scope),
  credential: ({ credential, ...own }) => (membersOf(credential) ?? own)['name'],
  approval: ({ workload_id: workload, action }) =>
    `${String(workload)}: ${String(membersOf(action)?.['model'] ?? membersOf(action)?.['target_host'])}`,
  quarantine: ({ workload_id: workload, caller_id: caller, caller_ip: ip }) =>
    `${String(workload)}: ${String(caller ?? ip ?? 'everybody')}`,
};

/** The name of a thing, for people who read its id; undefined: it has none but that. */
export function nameOfThing(entity: string, value: unknown): string | undefined {
  const members = membersOf(value);
  if (members === undefined) return undefined;
  const name = (NAMES[entity] ?? (({ name: own }: Members) => own))(members);
  return typeof name === 'string' && name !== '' ? shorten(name.toWellFormed(), MOST_TEXT) : undefined;
}

function membersOf(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
}
