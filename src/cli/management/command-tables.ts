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
  ],
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

/** Of which report, by what: the member of its answer that has the figures. */
export const REPORT_VIEWS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'mgmt.billing.summary': { model: 'by_model', workload: 'by_workload', connector: 'by_connector', day: 'by_day' },
  'mgmt.attribution.summary': { project: 'by_project', customer: 'by_customer', account: 'by_account' },
};
