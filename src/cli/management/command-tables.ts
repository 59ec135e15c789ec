/* What of the commands that are made of the operations table does not follow from an operation. */

/** Words that mean the same at the end of a command; the operation has one of them. */
export const SAME_VERBS: readonly (readonly string[])[] = [
  ['read', 'get', 'show'],
  ['remove', 'delete', 'revoke'],
  ['update', 'change', 'patch', 'set', 'put', 'configure'],
];

/** Columns of lists whose items have more than fits beside each other. */
export const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  'mgmt.records.list': [
    'record_hash',
    'received_at',
    'decision',
    'workload_id',
    'connector_id',
    'model',
    'metering.tokens_in',
    'metering.tokens_out',
    'metering.cost_usd',
    'target_host',
    'summed_requests',
  ],
  'mgmt.audit.list': ['at', 'operation', 'object', 'object_name', 'principal.name', 'principal.id', 'from'],
  'mgmt.providers.list': ['addon_id', 'enabled', 'kind', 'category', 'display_name', 'description'],
  'mgmt.approvals.list': [
    'approval_id',
    'created_at',
    'status',
    'workload_id',
    'caller_id',
    'action.target_host',
    'action.model',
    'estimated_cost_usd',
    'reason',
  ],
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
  'mgmt.spend.read': VIEWS,
  [BILLED]: VIEWS,
  [ATTRIBUTED]: VIEWS,
};
