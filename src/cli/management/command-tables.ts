/* What of the commands that are made of the operations table does not follow from an operation. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { stopScopeText } from '../../base/model/stop.ts';
import { budgetLimitsText, changedLimitText, madeLimitText } from '../money/budget-limits-text.ts';
import { answeredReportText } from '../money/cost-report-text.ts';
import { doubtsOfRecord } from '../money/money-table.ts';
import { explainedText } from './explained-text.ts';

/** Operations whose answers are the gateway's own words, and name commands that a person types next. */
export const SAYS_COMMANDS: ReadonlySet<string> = new Set(['mgmt.health.read']);

/** By operation and option: where to find what people look for there, and is elsewhere. */
export const ELSEWHERE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'mgmt.keys.create': { kind: 'keys with which callers say their org (gwk_…) are made by gw api-keys create' },
};

/** How a list is shown to people. */
export interface ListFacts {
  /** What its items are, in the plural, where the name of the command does not say it. */
  readonly things?: string;
  /**
   * Its columns, chosen so that they fit 80 cells: `heading: member`, with dots for what stands deeper; `a | b` is the
   * first of both that is there, `a + b` both. Default: the plain members, as they come.
   */
  readonly columns?: readonly string[];
  /** An item with what is not a member of it and stands in a column. */
  readonly seen?: (item: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>>;
  /** Members beside that of the column `id` by which an item can be named. */
  readonly alsoNamedBy?: readonly string[];
  /** What the list is asked with where all of it is meant. */
  readonly all?: Readonly<Record<string, string>>;
}

/** Lists whose items have more than fits beside each other, or are called otherwise than their command. */
export const LISTS: Readonly<Record<string, ListFacts>> = {
  'mgmt.records.list': {
    things: 'records that fit (without --from: of the last 24 hours)',
    columns: [
      'time: completed_at',
      'decision',
      'who: workload_id',
      'model: model | target_host',
      'cost/reason: metering.cost_usd + cost_doubt + reason_codes | reason',
      'calls: summed_requests',
      'id: record_id',
    ],
    // In the words that `--cost-doubt` takes.
    seen: (record) => ({ ...record, cost_doubt: doubtsOfRecord(record) }),
    alsoNamedBy: ['record_hash'],
    all: { from: '1970-01-01T00:00:00Z' },
  },
  'mgmt.approvals.list': {
    columns: [
      'time: created_at',
      'status',
      'who: workload_id',
      'model: action.model | action.target_host',
      'may cost: estimated_cost_usd',
      'reason',
      'id: approval_id',
    ],
  },
  'mgmt.quarantine.list': {
    things: 'callers in quarantine',
    columns: [
      'since: created_at',
      'who: workload_id',
      'caller: caller_id | caller_ip',
      'reason',
      'score: risk_score',
      'released: released_at',
      'id: quarantine_id',
    ],
  },
  'mgmt.stops.list': {
    things: 'stops',
    columns: ['since: created_at', 'calls', 'reason', 'until', 'id: stop_id'],
    // One that holds all calls has no member that could be a column.
    seen: (stop) => ({ ...stop, calls: isJsonObject(stop['scope']) ? stopScopeText(stop['scope']) : undefined }),
  },
  'mgmt.nodes.list': {
    columns: ['id: node_id', 'mode', 'version', 'seen: last_seen_at', 'behind: backlog.records', 'holds: allowances.usd'],
  },
  'mgmt.keys.list': { columns: ['id', 'name', 'kind', 'scopes', 'created: created_at', 'expires: expires_at'] },
  'mgmt.sessions.list': {
    things: 'sessions of the console',
    columns: ['since: made_at', 'key: name | key_id', 'seen: last_seen_at', 'from: address', 'browser', 'id'],
  },
  'mgmt.workloads.list': {
    columns: [
      'id: workload_id',
      'name',
      'project: default_attribution.project_id',
      'customer: default_attribution.customer_id',
      'doors: allowed_connection_types',
    ],
  },
  'mgmt.projects.list': { columns: ['id: project_id', 'name: display_name', 'status', 'created: created_at'] },
  'mgmt.budgets.list': {
    things: 'budget limits',
    columns: ['id: limit_id', 'scope', 'of: scope_id', 'period', 'limit: effective_limit_usd | limit_usd', 'spent: spent_usd', 'actions'],
  },
  'mgmt.credentials.list': { columns: ['id', 'provider', 'mode', 'scope', 'secret: secret_source', 'updated: updated_at'] },
  'mgmt.connectors.list': {
    things: 'connectors of your own',
    columns: ['id', 'name', 'dialect', 'on: enabled', 'base url: base_url'],
    alsoNamedBy: ['connector_id'],
  },
  'mgmt.providers.list': { columns: ['id: addon_id', 'on: enabled', 'category', 'name: display_name'] },
  'mgmt.pricing.list': {
    columns: ['provider', 'model', 'in: rate_in', 'out: rate_out', 'cached: rate_cached_in', 'source: rate_source'],
  },
  'mgmt.alerts.channels.list': {
    things: 'alert channels',
    columns: ['id: channel_id', 'name', 'kind', 'on: enabled', 'created: created_at'],
  },
  'mgmt.alerts.subscriptions.list': {
    things: 'alert subscriptions',
    columns: [
      'id: subscription_id',
      'event',
      'channel: channel_name',
      'on: enabled',
      'last alert: last_alerted_at',
      'level: last_alerted_level',
    ],
  },
  'mgmt.alerts.history.list': {
    things: 'alerts so far',
    columns: ['time: at', 'event', 'level', 'channel: channel_name', 'outcome', 'title', 'id: alert_id'],
  },
  'mgmt.exports.list': { things: 'export destinations', columns: ['id', 'name', 'kind', 'on: enabled', 'created: created_at'] },
  'mgmt.audit.list': {
    things: 'changes',
    columns: ['time: at', 'operation', 'object: object_name | object', 'who: principal.name | principal.id', 'from'],
  },
  'mgmt.policies.list': {
    things: 'policies',
    columns: ['level', 'node: node_id', 'bundle: bundle_id', 'version', 'source', 'loaded: loaded_at'],
  },
  'mgmt.policies.rules.list': {
    things: 'rules',
    columns: ['id: rule_id', 'layer', 'level', 'from', 'in force: in_force', 'decision', 'priority'],
  },
  'mgmt.ratelimit.keys': { things: 'callers with a bucket' },
};

/** Arguments that are ids of something listed, and may be shortened as those in a path are: which list has it. */
export const ID_ARGUMENTS: Readonly<Record<string, string>> = {
  approval_id: 'mgmt.approvals.list',
  channel_id: 'mgmt.alerts.channels.list',
  limit_id: 'mgmt.budgets.list',
  quarantine_id: 'mgmt.quarantine.list',
  record_id: 'mgmt.records.list',
  stop_id: 'mgmt.stops.list',
  subscription_id: 'mgmt.alerts.subscriptions.list',
};

/**
 * An answer as people see it; undefined: it is not the answer that was expected.
 * @param given the arguments of the call
 */
type AnswerText = (answer: unknown, width: number | undefined, given: Readonly<Record<string, unknown>>) => string | undefined;

/** Answers that people see in a form of their own. */
export const TEXTS: Readonly<Record<string, AnswerText>> = {
  'mgmt.billing.report': answeredReportText,
  'mgmt.budgets.create': madeLimitText,
  'mgmt.budgets.list': budgetLimitsText,
  'mgmt.budgets.override': changedLimitText,
  'mgmt.records.explain': explainedText,
};

/** A report by one thing: which operation has the figures, and in which member of its answer. */
export interface ReportView {
  readonly operation: string;
  readonly member: string;
}

const BILLED = 'mgmt.billing.summary';
const ATTRIBUTED = 'mgmt.attribution.summary';
const VIEWS: Readonly<Record<string, ReportView>> = {
  model: { operation: BILLED, member: 'by_model' },
  workload: { operation: BILLED, member: 'by_workload' },
  connector: { operation: BILLED, member: 'by_connector' },
  day: { operation: BILLED, member: 'by_day' },
  project: { operation: ATTRIBUTED, member: 'by_project' },
  customer: { operation: ATTRIBUTED, member: 'by_customer' },
  account: { operation: ATTRIBUTED, member: 'by_account' },
  caller: { operation: ATTRIBUTED, member: 'by_caller' },
};

/** Which commands have `--by`, and by what. */
export const REPORT_VIEWS: Readonly<Record<string, Readonly<Record<string, ReportView>>>> = {
  [BILLED]: VIEWS,
  [ATTRIBUTED]: VIEWS,
};
