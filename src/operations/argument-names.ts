/*
 * What arguments of tools are called by those who guess: a model knows dozens of APIs and mixes their words. A name of
 * the tool itself always counts first (decision 10.15).
 */
import { nearestName } from '../base/lib/mistakes.ts';

/** Other names of an argument, wherever a tool has it. */
const SAME: Readonly<Record<string, string>> = {
  from: 'since start begin after start_date start_time start_at from_date from_time date_from period_start',
  to: 'until end before end_date end_time end_at to_date to_time date_to till through period_end',
  until: 'to end end_date end_time expires expires_at expiry ends ends_at till valid_until deadline for duration valid_for',
  expires_at: 'expires expiry until expiration valid_until',
  tz: 'timezone time_zone zone',
  limit: 'page_size max_results results count size per_page max top first n',
  cursor: 'next_cursor page_token next_page_token page_cursor after_cursor',
  warning_threshold_pct: 'warning_threshold warning warn warn_at warning_pct alert_at threshold',
  critical_threshold_pct: 'critical_threshold critical critical_at critical_pct',
  limit_usd: 'amount amount_usd usd budget budget_usd cap cap_usd max_usd limit limit_amount dollars new_limit',
  scope_id: 'target target_id id name',
  actions: 'action on_exceed enforcement',
  min_cost_usd: 'min_cost cost_above cost_usd_min minimum_cost',
  project: 'project_id project_name',
  project_id: 'id slug',
  account: 'account_id',
  customer: 'customer_id',
  node: 'node_id',
  node_id: 'node',
  workload: 'workload_id workload_name service app',
  caller: 'caller_id user user_id developer',
  label: 'labels tag tags',
  workload_id: 'workload_name service app caller id',
  caller_id: 'caller user user_id developer',
  caller_ip: 'ip ip_address address client_ip source_ip caller_address client_address remote_addr remote_address',
  reason_code: 'reason_codes reason code error_code why',
  default_attribution: 'attribution',
  allowed_connection_types: 'connection_types connection_type allowed_types',
  provider: 'provider_id provider_name connector connector_id vendor',
  connector_id: 'provider provider_id custom_provider_id',
  target_host: 'host hostname domain',
  model: 'model_name model_id',
  decision: 'status outcome verdict result',
  status: 'state filter',
  active: 'status state active_only is_active',
  state: 'status enabled action',
  enabled: 'active state status',
  addon_id: 'addon preset',
  bundle_yaml: 'yaml policy policy_yaml bundle overlay content text body',
  display_name: 'name title label',
  name: 'display_name title label',
  description: 'desc comment note',
  reason: 'comment note message justification why',
  decided_by: 'by approver actor user approved_by denied_by',
  released_by: 'by actor user',
  secret: 'key api_key token value secret_value',
  base_url: 'url endpoint host',
  record_hash: 'record_id record id hash call call_id request_id',
  record_id: 'record id hash record_hash call call_id request_id',
  label_key: 'key label label_name labels tag tags',
  label_value: 'value',
  window: 'period range interval last timeframe',
  period: 'window interval cycle per month',
  kind: 'type channel_type',
  config: 'settings configuration',
  webhook_url: 'url webhook hook hook_url',
  to_addresses: 'emails recipients addresses to email mail to_address',
  event_types: 'events types',
  refill_rate: 'rate requests requests_per_window calls',
  max_tokens: 'burst capacity bucket_size',
  window_duration: 'window per period interval',
  requests: 'calls request call samples',
  by: 'group_by grouped_by breakdown dimension dimensions split_by keys',
  operation: 'action what event activity operation_id change type',
  principal: 'who actor user changed_by key key_id',
  object: 'target resource entity thing id name',
  requests_per_minute: 'rpm rate limit per_minute calls_per_minute max_per_minute requests calls max_requests',
};

/** Of a tool whose times are two ends: one argument that says both. */
const RANGES: ReadonlySet<string> = new Set(
  'range period window timeframe time_range date_range last days dates date day month week when'.split(' '),
);

/** A scope that is named by what it is: `project: apollo` says `scope: project` as well. */
const SCOPES: readonly string[] = ['project', 'workload', 'provider'];

/** Names that say the opposite of a switch. */
const OPPOSITES: Readonly<Record<string, string>> = { unmanaged: 'managed', released: 'active', disabled: 'enabled' };

/** What a given name stands for. */
export type MeantName = { readonly argument: string } | RangeName | ScopedName | OppositeName | MemberName;
/** Both ends of a time. */
interface RangeName {
  readonly range: true;
}
/** It says the scope as well. */
interface ScopedName {
  readonly argument: string;
  readonly scope: string;
}
/** `unmanaged: true` is `managed: false`. */
interface OppositeName {
  readonly argument: string;
  readonly opposite: true;
}
/** A member of an object that is one argument: `webhook_url` of `config`. */
interface MemberName {
  readonly argument: string;
  readonly member: string;
}

/** Arguments that are objects, with the names of their members. */
export type ObjectMembers = Readonly<Record<string, readonly string[]>>;

/** The names of one tool. */
export class ArgumentNames {
  readonly #meant = new Map<string, MeantName>();
  readonly #own: readonly string[];

  /**
   * @param own what the tool calls its arguments
   * @param ids those of them that stand in the path
   * @param objects those of them that are objects
   */
  constructor(own: readonly string[], ids: readonly string[], objects: ObjectMembers = {}) {
    this.#own = own;
    for (const argument of own) this.#learn(argument, { argument });
    for (const [name, meant] of [
      ...idGuesses(ids),
      ...scopeGuesses(own),
      ...own.map(withoutId),
      ...own.flatMap(sameNames),
      ...opposites(own),
      ...Object.entries(objects).flatMap(memberGuesses),
      ...lastGuesses(own, ids),
    ])
      this.#learn(name, meant);
  }

  /**
   * What `given` stands for: `workloadId`, `Workload-ID` and `workload` are `workload_id`. Undefined: nothing that this
   * tool takes.
   */
  meant(given: string): MeantName | undefined {
    return this.#meant.get(given) ?? this.#meant.get(plainName(given));
  }

  /** What is said of a name that stands for nothing here. */
  unknown(given: string): string {
    if (this.#own.length === 0) return 'is no argument of this tool, which takes none';
    const nearest = nearestName(plainName(given), this.#own);
    const hint = nearest === undefined ? '' : `; did you mean \`${nearest}\`?`;
    return `is no argument of this tool${hint}${hint === '' ? '; it' : ' It'} takes ${this.#own.join(', ')}`;
  }

  #learn(name: string, meant: MeantName): void {
    if (!this.#meant.has(name)) this.#meant.set(name, meant);
  }
}

type Guess = readonly [name: string, meant: MeantName];

/** The only id of a path is `id`. */
function idGuesses(ids: readonly string[]): readonly Guess[] {
  const [only] = ids;
  return only === undefined || ids.length > 1 ? [] : [['id', { argument: only }]];
}

function scopeGuesses(own: readonly string[]): readonly Guess[] {
  if (!own.includes('scope') || !own.includes('scope_id')) return [];
  return SCOPES.flatMap((scope) => [scope, `${scope}_id`].map((name): Guess => [name, { argument: 'scope_id', scope }]));
}

/** `caller` is `caller_id`, before it is another name of anything else. */
function withoutId(argument: string): Guess {
  return [argument.endsWith('_id') ? argument.slice(0, -'_id'.length) : `${argument}_id`, { argument }];
}

function sameNames(argument: string): readonly Guess[] {
  return (SAME[argument]?.split(' ') ?? []).map((name): Guess => [name, { argument }]);
}

function opposites(own: readonly string[]): readonly Guess[] {
  return Object.entries(OPPOSITES).flatMap(([name, argument]): Guess[] =>
    own.includes(argument) ? [[name, { argument, opposite: true }]] : [],
  );
}

/** What belongs into an object is often given beside it; names of its members count before other words for them. */
function memberGuesses([argument, names]: readonly [string, readonly string[]]): readonly Guess[] {
  const direct = names.map((member): Guess => [member, { argument, member }]);
  const others = [...names.map(withoutId), ...names.flatMap(sameNames)].map(([name, meant]): Guess => {
    return [name, { argument, member: 'argument' in meant ? meant.argument : name }];
  });
  return [...direct, ...others];
}

/** A thing is called by its name only where nothing else is. */
function lastGuesses(own: readonly string[], ids: readonly string[]): readonly Guess[] {
  const ranges = own.includes('from') && own.includes('to') ? [...RANGES].map((name): Guess => [name, { range: true }]) : [];
  return [...idGuesses(ids).map(([, meant]): Guess => ['name', meant]), ...ranges];
}

/** `pageSize`, `Page-Size` and `page size` are `page_size`. */
function plainName(name: string): string {
  return name
    .slice(0, 128)
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .replace(/[\s.-]+/g, '_')
    .toLowerCase();
}
