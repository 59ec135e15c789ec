import type { Bounds } from './bound.ts';

/** Controls and events: approvals, outbox, quarantine, risk, discovery, idempotency. */
export const CONTROL_BOUNDS = {
  approvals: {
    what: 'Requests that wait for an approval',
    all: 10_000,
    shared: 'orgs; within one, keys, registered workloads, and addresses of other callers',
    full: 'the call is denied with `too_many_approvals`, which says whose share is full',
  },
  heldCalls: {
    what: 'Calls that wait for an approval on their open connections',
    all: 1_000,
    much: '1,000, and a quarter of `GW_MAX_BUFFERED_BYTES` of their bodies',
    shared: 'orgs; within one, keys, registered workloads, and addresses of other callers',
    full: 'the call is answered at once that it waits, as without `GW_APPROVAL_HOLD`',
  },
  outbox: {
    what: 'Durable events that some destination has not taken',
    all: 10_000,
    shared: 'orgs; within one, kinds of events',
    full: 'the oldest is dropped: of the org with most, of its kind with most, for the destination with most; `gw_outbox_dropped_total` and the log say whose',
  },
  quarantined: {
    what: 'Entries that hold somebody in quarantine',
    all: 20_000,
    shared: 'orgs; within one, registered workloads, and addresses of other callers',
    full: 'a registered workload is held as a whole; of other callers policy judges each call, and a line of the log says so',
  },
  stops: {
    what: 'Stops of calls that name no org',
    all: 1_000,
    shared: 'nobody: the operator alone makes them; those of an org are bounded for each',
    full: '409 `limit_reached`',
  },
  longRecords: {
    what: 'Bytes of records above 4 KiB of refused calls whose callers have shown a token or a key',
    org: 131_072,
    unit: 'per second',
    much: '128 KiB a second, 8 MiB at once',
    shared: 'each org has its own',
    full: 'further ones of that org are cut to 4 KiB as those of callers who have shown nothing, and counted (`gw_records_shortened_total`); every call still has its record',
  },
  deferred: {
    what: 'Responses whose usage comes after their calls (`background`)',
    all: 10_000,
    shared: 'orgs',
    full: 'of the org that waits for most the oldest is charged what was set aside for it',
  },
  idempotencyKeys: {
    what: 'Idempotency keys that are remembered for a day',
    all: 1_000_000,
    shared: 'orgs; within one, keys, registered workloads, and addresses of other callers',
    full: 'a further key is not remembered: the same call is made again; a line of the log says whose share is full',
  },
  idempotentBytes: {
    what: 'Answers that are kept for idempotency keys',
    all: 2_147_483_648,
    unit: 'bytes',
    shared: 'as idempotency keys',
    full: 'that the call was made is remembered, its answer is not',
  },
  rateBuckets: {
    what: 'Token buckets of workloads and rules, and the count of a month',
    one: 64,
    much: 'one for each registered workload, and for each rule that limits it; so many orgs that nobody has laid down have counts of their own',
    shared: 'each known org has its own; further orgs that nobody has laid down share theirs',
    full: 'nothing is evicted: a bucket goes when it is full again',
  },
  riskCallers: {
    what: 'Profiles of callers in memory',
    much: '`GW_RISK_MAX_CALLERS`',
    shared: 'orgs; within one, registered workloads, and addresses of other callers',
    full: 'of who has most the one that was not heard of for longest is stored, and read again when he calls',
  },
  spans: {
    what: 'Spans that wait to be sent',
    all: 8_192,
    shared: 'addresses of callers; at one, orgs',
    full: 'of the address with most, and of its org with most, those of the call that came last are dropped and counted (`gw_trace_spans_total`)',
  },
  spanBytes: {
    what: 'Text of spans that wait to be sent',
    all: 16_777_216,
    unit: 'bytes',
    shared: 'all calls',
    full: 'as above',
  },
  domains: {
    what: 'Domains on the discovery list',
    all: 5_000,
    shared: 'addresses of callers',
    full: 'a fifth is let go: of the addresses that have named most, else what was met least and longest ago',
  },
  domainCallers: {
    what: 'Workloads that are counted of one domain',
    one: 32,
    shared: 'orgs',
    full: 'of the org with most the workload that was met least is counted with its others, which have no names; of more orgs than that the one met longest ago is not shown the domain until it goes there again',
  },
  unpricedModels: {
    what: 'Models without a price that are listed',
    all: 100,
    shared: 'orgs',
    full: 'of the org with most the one that was charged least lately is left out',
  },
  deadLetters: {
    what: 'Events that no try could deliver, kept to be sent again',
    one: 10_000,
    shared: 'each export destination has its own',
    full: 'a further one of that destination is dropped and counted (`gw_export_dropped_total`)',
  },
  subscriptionKinds: {
    what: 'Kinds of events and orgs of which is remembered who wants them',
    all: 10_000,
    shared: 'all orgs',
    full: 'all are forgotten, and looked up again',
  },
  endedResponses: {
    what: 'Ends of responses that came before their calls were recorded',
    all: 10_000,
    shared: 'all orgs',
    full: 'the one used least lately is forgotten; a response that is waited for then is charged what was set aside',
  },
  lateRecords: {
    what: 'Records of answered calls, without an intent, that wait until the store can write',
    all: 1_000,
    shared: 'all calls that were under way when the store failed; new ones are refused meanwhile',
    full: 'a line of the log has the id of each that is lost',
  },
  verifiedDelegations: {
    what: 'Delegation tokens whose signatures are not checked again for a minute',
    all: 1_000,
    shared: 'all callers; only tokens with good signatures take a place',
    full: 'the one used least lately is checked again',
  },
  refusedCaps: {
    what: 'Caps that rules set for a project, and budgets of delegations, of which it is known that somebody was told that they refuse calls',
    all: 10_000,
    shared: 'all callers',
    full: 'all are forgotten, and said once more in their period',
  },
  idleDelegations: {
    what: 'Spend of delegations that is in memory while nothing is under way',
    all: 10_000,
    shared: 'all callers; only tokens with good signatures take a place',
    full: 'it is read again from the store',
  },
  keysInUse: {
    what: 'Keys of one kind that are found without the store',
    all: 10_000,
    shared: 'all orgs; only keys that there are take a place',
    full: 'the one used least lately is read again from the store',
  },
  adminSessions: {
    what: 'Sessions of the admin token (`gw`, `gw-mcp`) of which it is known that the audit trail has them',
    all: 1_000,
    shared: 'all orgs; only who has the admin token takes a place',
    full: 'the one used least lately is told once more',
  },
  consoleSessions: {
    what: 'Sessions of browsers at the console',
    org: 1_000,
    shared: 'each org has its own; so have those of the admin token',
    full: 'the one that nobody has used for longest ends',
  },
  clickAnswers: {
    what: 'Answers to buttons that were pressed in chats, while they are sent',
    all: 100,
    shared: 'all orgs; only what a chat has signed takes a place',
    full: 'the button does what it does, and nobody is told; the message is not changed',
  },
  pinnedHosts: {
    what: 'Hosts of which it is said that clients do not take our certificate',
    all: 1_000,
    shared: 'all callers',
    full: 'the one met least lately is said again in the log when it is met; nothing is passed by it',
  },
  takenCertificates: {
    what: 'Clients that have taken our certificate for a host',
    all: 10_000,
    shared: 'all callers',
    full: 'of the one met least lately a silent close counts again',
  },
  silentCloses: {
    what: 'Silent closes that wait to be judged',
    all: 1_000,
    shared: 'all callers',
    full: 'a further one is not counted',
  },
  telemetryCallers: {
    what: 'Callers that the daily usage report counts one by one',
    all: 10_000,
    shared: 'all callers',
    full: 'the report says that many',
  },
  labelValues: {
    what: 'Values that one label of a metric shows',
    all: 500,
    shared: 'orgs, connectors and kinds of actions that are known, by who comes first',
    full: 'further ones are counted as `other` (`gw_metric_labels_folded_total`)',
  },
  revokedDelegations: {
    what: 'Revoked delegations',
    all: 10_000,
    shared: 'nobody: the operator alone revokes them',
    full: '409 `limit_reached`; those whose tokens have expired by themselves are removed',
  },
  quarantinedOfWorkload: {
    what: 'Callers of one workload that are held one by one',
    one: 1_000,
    shared: 'each workload has its own',
    full: 'the workload is held as a whole',
  },
} as const satisfies Bounds;

const OF_ITS_OWN = 'each org has its own';
const LIMIT_REACHED = '409 `limit_reached`, to who asks for another one';

/**
 * What people lay down for an org, at a gateway and at the control plane alike: workloads, keys, limits, credentials,
 * connectors.
 */
export const ENTITY_BOUNDS = {
  workloads: { what: 'registered workloads', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  projects: { what: 'projects', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  credentials: { what: 'credentials', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  assignments: {
    what: 'nodes that credentials are assigned to, counted for each credential',
    org: 20_000,
    shared: OF_ITS_OWN,
    full: LIMIT_REACHED,
  },
  limits: { what: 'budget limits', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  workloadRates: { what: 'rate limits of single workloads', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  overlays: { what: 'policy overlays, with those of single nodes', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  connectors: { what: 'custom connectors', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  apiKeys: { what: 'API keys that are not revoked', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  managementKeys: { what: 'management keys that are not revoked', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  chatUsers: { what: 'users of chats who decide approvals there', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  revokedKeys: {
    what: 'revoked keys of one kind, which lists still show',
    org: 1_000,
    shared: OF_ITS_OWN,
    full: 'the one that was made first is forgotten',
  },
  channels: { what: 'alert channels', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  subscriptions: { what: 'alert subscriptions', org: 5_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  subscriptionsOfChannel: { what: 'subscriptions of one alert channel', one: 500, shared: 'each channel has its own', full: LIMIT_REACHED },
  exports: { what: 'export destinations', org: 50, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  stops: { what: 'stops of calls', org: 100, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  addons: { what: 'switched add-ons at the control plane', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
} as const satisfies Bounds;
