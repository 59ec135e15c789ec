/** A place of the product that holds a limited amount: what it is called, how much it takes, who shares it, and what happens when it is full. */
export interface Bound {
  /** What is counted, as the guide names it. */
  readonly what: string;
  /** How much all may hold or do; absent where a setting says it. */
  readonly all?: number;
  /** How much one org may hold, where that is a fixed number. */
  readonly org?: number;
  /** How much one caller, key, node, address or connection may hold, where that is a fixed number. */
  readonly one?: number;
  /** Of what the numbers are: "entries" when absent. */
  readonly unit?: 'bytes' | 'entries' | 'milliseconds' | 'per second' | 'steps';
  /** The amount in words, where numbers alone do not say it: a setting, a share, a rate. */
  readonly much?: string;
  /** Who has a place of their own in it. */
  readonly shared: string;
  /** What happens when it is full, and to whom. */
  readonly full: string;
}

type Bounds = Readonly<Record<string, Bound>>;

/** Connections and what waits on them: `src/inbound/listener/`, `src/surfaces/http/`. */
export const CONNECTION_BOUNDS = {
  originConnections: {
    what: 'Calls under way to one origin (scheme, host, port), each on a connection',
    all: 1_536,
    shared: 'orgs, and within them callers; names of orgs that nobody has laid anything down for are one org, whose callers are addresses',
    full: 'further calls of who is at his share wait for one of his own to end',
  },
  originWaiting: {
    what: 'Calls that wait for a connection to one origin, for 30 seconds at most',
    all: 3_072,
    shared: 'as the connections',
    full: '503 `overloaded` for further calls of who is at his share',
  },
} as const satisfies Bounds;

/** Records and look-ups of callers who have shown nothing (decision 7.11). */
export const STRANGER_BOUNDS = {
  records: {
    what: 'Records of refused calls of one address',
    much: '`GW_STRANGER_RECORDS`: 50 per second, 1,000 at once',
    shared: 'Addresses; of IPv6 networks of 64 bits',
    full: 'One record per address and minute says how many calls there were (`summed_requests`); the answers stay the same',
  },
  recordsInAll: {
    what: 'The same of all addresses, in budgets of one address',
    all: 4,
    shared: 'Everybody who has shown nothing',
    full: 'The same',
  },
  recordBytesEach: {
    what: 'Bytes that go with each record of those budgets',
    one: 2_048,
    unit: 'bytes',
    shared: 'Addresses, and all of them',
    full: 'The same',
  },
  recordBytes: {
    what: 'One record of a refused call whose caller has shown nothing',
    one: 4_096,
    unit: 'bytes',
    shared: 'Nobody',
    full: 'Texts that the caller chose are cut to their beginning, and labels are left out',
  },
  addresses: {
    what: 'Addresses whose budgets are remembered',
    all: 10_000,
    shared: 'Everybody who has shown nothing',
    full: 'That which came longest ago is forgotten; the budget of all addresses holds it',
  },
  sums: {
    what: 'Addresses that are summed up one by one in a minute',
    all: 1_000,
    shared: 'Addresses, by the rule above',
    full: 'What is beyond is summed up for all addresses together, by org',
  },
  lookups: {
    what: 'API keys that are being looked up at the control plane and have not been shown here before',
    all: 64,
    shared: 'Addresses, by the rule above',
    full: '503 `key_lookup_failed` with `Retry-After`, never 401; keys that were shown here before are not held up',
  },
  renewedLookups: {
    what: 'The same of keys that were shown here before',
    all: 64,
    shared: 'Everybody',
    full: 'They count as they were found last for ten seconds more',
  },
  keptKeys: {
    what: 'API keys of the control plane that are kept',
    all: 2_000,
    shared: 'Nobody: they are of the one org of the gateway',
    full: 'That which was looked up longest ago is forgotten; unknown keys take none of these places',
  },
  unknownKeys: {
    what: 'Unknown API keys that are not asked for again for ten seconds',
    all: 10_000,
    shared: 'Everybody',
    full: 'That which was shown longest ago is forgotten, and asked for again',
  },
  wrongKeys: {
    what: 'Answers to wrong management and MCP keys that are held back',
    all: 1_000,
    one: 8,
    shared: 'Addresses; of IPv6 networks of 64 bits',
    full: '429 `too_many_attempts`; right keys are never held up',
  },
  wrongKeyAddresses: {
    what: 'Addresses whose wrong keys are remembered',
    all: 10_000,
    shared: 'Everybody',
    full: 'That which came longest ago begins at nothing',
  },
} as const satisfies Bounds;

/** Policies, overlays, patterns and price lists. */
export const POLICY_BOUNDS = {
  pattern: {
    what: 'Instructions of one pattern (`matches`), its repetitions written out',
    one: 10_000,
    unit: 'steps',
    shared: 'nobody: each pattern has its own',
    full: 'the policy does not load (`bad_value`)',
  },
  patterns: {
    what: 'Instructions of all different patterns of a policy: bundle, overlays of the org and of the node, add-ons',
    org: 50_000,
    unit: 'steps',
    shared: 'the texts of one org with the bundle that they are laid over',
    full: 'the policy does not load (`patterns_too_large`); nothing of it is compiled. Judged by the texts of the patterns, before any is compiled',
  },
  compiled: {
    what: 'Instructions of the patterns of all orgs that are compiled at the same time, beside those of the bundle',
    all: 400_000,
    unit: 'steps',
    shared: 'orgs that have laid overlays',
    full: 'the org that has most is let go of, and compiled again when it is next asked for; its call waits for that, nobody else does',
  },
  automata: {
    what: 'Patterns that keep states of what they have read, and bytes of these for each',
    all: 512,
    one: 65_536,
    shared: 'all patterns of the process',
    full: 'the one that has had states for longest builds them again when it is next asked',
  },
  verdict: {
    what: 'Steps of judging one call: of each pattern its instructions times the characters of the text, of a pattern with a small automaton a quarter for each character; of lists their entries',
    one: 20_000_000,
    unit: 'steps',
    shared: 'nobody: each call has its own',
    full: 'the call is denied with `policy_too_costly`',
  },
  yaml: {
    what: 'YAML texts above 16 KiB that are read at the same time, in a thread of their own',
    all: 1,
    shared: 'all who lay down or check policies, in the order in which they ask',
    full: 'the others wait; calls do not',
  },
  listPatterns: {
    what: 'Instructions of all regular expressions of a price list',
    one: 50_000,
    unit: 'steps',
    shared: 'nobody: each list has its own',
    full: 'the list is not taken, and the one before it goes on',
  },
  mistakes: {
    what: 'Mistakes that are told of a policy, a suite or a YAML text',
    one: 50,
    shared: 'nobody: each answer has its own',
    full: 'the last one says how many more there are',
  },
} as const satisfies Bounds;

/** Reports, lists and MCP: what one key has under way. */
export const REPORT_BOUNDS = {
  underWay: {
    what: 'requests to routes of the gateway itself that need a key or token and are under way (admin API, reports, management API, MCP); of a batch of MCP one message at a time',
    all: 48,
    much: 'a share for an org, and within it for a key',
    shared: 'all orgs, their keys, and the operator’s tokens as one more org',
    full: 'the request waits for its turn',
  },
  waiting: {
    what: 'requests that wait for such a turn',
    all: 1_024,
    much: 'a share for an org, and within it for a key',
    shared: 'all orgs, their keys, and the operator’s tokens as one more org',
    full: '429 `too_many_requests` with `Retry-After`, to the key or the org that has its share',
  },
  sessions: {
    what: 'sessions of MCP',
    all: 2_048,
    one: 64,
    much: 'a share for an org, and within it for a key',
    shared: 'all orgs, and their MCP keys',
    full: 'one more takes the place of the one that was idle longest, of the same key or the same org; when all places are taken, of the org that holds most',
  },
  batchMessages: {
    what: 'messages of one batch of MCP',
    one: 100,
    shared: 'one request',
    full: '400, JSON-RPC error -32600',
  },
  batchBytes: {
    what: 'answers of one batch of MCP together',
    one: 4 * 1024 * 1024,
    unit: 'bytes',
    shared: 'one request',
    full: 'the messages behind are not carried out: each is answered by a JSON-RPC error -32010 with `data.code` `batch_too_large`, which says so',
  },
  countedNames: {
    what: 'names of one kind that totals of a month count one by one: projects, customers, accounts, callers, keys and values of labels, models that were refused, models that a provider accepted',
    all: 100_000,
    org: 1_000,
    much: 'a share for an org of those of all',
    shared: 'all orgs',
    full: 'further names are counted together (`other`, `other models`); totals stay exact, and records keep what was sent',
  },
  countedOrgs: {
    what: 'orgs of a month for which nobody has laid down anything and whose refused calls are counted by the org’s name',
    all: 1_000,
    shared: 'all callers',
    full: 'further ones are counted together as `unknown orgs`',
  },
  reportNames: {
    what: 'names that one breakdown of a report adds up one by one, and that it shows',
    all: 10_000,
    one: 1_000,
    much: 'shown are the dearest',
    shared: 'one answer',
    full: 'all others are one row (`other`, `other workloads`, `other models`, `other connectors`); totals stay exact',
  },
  billNames: {
    what: 'workloads of the bill of all orgs, which the operator asks for; its CSV has all lines',
    one: 100_000,
    shared: 'one answer',
    full: 'all others are one row, `other workloads`; totals stay exact',
  },
  partRecords: {
    what: 'records that are read for the part of an hour in which the range of a dashboard begins or ends',
    one: 100_000,
    shared: 'one answer',
    full: 'the whole hour is counted, and `from` or `to` of the answer says so',
  },
  pageItems: {
    what: 'items of one page of a list',
    one: 500,
    shared: 'one answer',
    full: '`next_page_token`, or `next_cursor`, is the rest',
  },
  pageBytes: {
    what: 'records, and what is laid down for an org, of one page together',
    one: 4 * 1024 * 1024,
    unit: 'bytes',
    shared: 'one answer',
    full: 'the page ends, with `next_cursor`',
  },
  pageLooked: {
    what: 'entries of a list that one page looks at, also those that its filters pass over',
    one: 10_000,
    shared: 'one answer',
    full: 'the page ends with what it has found, perhaps nothing, and a token for the rest',
  },
} as const satisfies Bounds;

/** Controls and events: approvals, outbox, quarantine, risk, discovery, idempotency. */
export const CONTROL_BOUNDS = {
  approvals: {
    what: 'Requests that wait for an approval',
    all: 10_000,
    shared: 'orgs; within one, keys, registered workloads, and addresses of other callers',
    full: 'the call is denied with `too_many_approvals`, which says whose share is full',
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
  deferred: {
    what: 'Responses whose usage comes after their calls (`background`)',
    all: 10_000,
    shared: 'orgs',
    full: 'of the org that waits for most the oldest is charged what was set aside for it',
  },
  idempotencyKeys: {
    what: 'Idempotency keys that are remembered for a day',
    all: 1_000_000,
    shared: 'orgs',
    full: 'a further key of the org is not remembered: the same call is made again; a line of the log says so',
  },
  idempotentBytes: {
    what: 'Answers that are kept for idempotency keys',
    all: 2_147_483_648,
    unit: 'bytes',
    shared: 'orgs',
    full: 'that the call was made is remembered, its answer is not',
  },
  rateBuckets: {
    what: 'Token buckets of workloads and rules',
    much: 'one for each registered workload, and for each rule that limits it',
    shared: 'each known org has its own; orgs that nobody has laid down share theirs',
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

/** What people lay down for an org, at a gateway and at the control plane alike: workloads, keys, limits, credentials, connectors. */
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
  overlays: { what: 'policy overlays, with those of single nodes', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  connectors: { what: 'custom connectors', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  apiKeys: { what: 'API keys that are not revoked', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  managementKeys: { what: 'management keys that are not revoked', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
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
  addons: { what: 'switched add-ons at the control plane', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
} as const satisfies Bounds;

/** The control plane's ports and calls. */
export const CONTROL_PLANE_BOUNDS = {
  strangerConnections: {
    what: 'Connections of the gRPC port that have shown no certificate of a node, and as many of the HTTP port that have not shown the admin token',
    all: 128,
    shared: 'Addresses (of IPv6 the first 64 bits)',
    full: 'The oldest such connection of that address is closed, or of the address that has most; on the gRPC port each is closed after 30 s',
  },
  nodeConnections: {
    what: 'Connections on which a node has shown its certificate',
    all: 8_192,
    one: 8,
    shared: 'Orgs, and their nodes',
    full: 'The new connection is closed',
  },
  adminConnections: {
    what: 'Connections of the HTTP port on which the admin token was shown',
    all: 512,
    one: 256,
    shared: 'Nobody: there is one token',
    full: 'The new connection is closed',
  },
  strangerCalls: {
    what: 'Calls under way that need no certificate (Enroll), of at most 12 KiB each',
    all: 64,
    shared: 'Addresses (of IPv6 the first 64 bits)',
    full: '`RESOURCE_EXHAUSTED`, before anything is read',
  },
  nodeCalls: {
    what: 'Calls of nodes under way, and each further 32 KiB of what they send',
    all: 2_048,
    shared: 'Orgs, and their nodes',
    full: '`RESOURCE_EXHAUSTED` with the time after which to try again; a gateway does',
  },
  largeAnswers: {
    what: 'Answers of up to 4 MiB (bundle, workloads, credentials, exports, add-ons, overlays) that are made or not read yet',
    all: 32,
    shared: 'Orgs, and their nodes',
    full: 'The call waits for its turn; an answer that is not read for 30 s is cut',
  },
  hashesOfNode: {
    what: 'Hashes of records that a node hands in',
    one: 2_500,
    unit: 'per second',
    much: '2,500 a second, 80,000 at once',
    shared: 'Each node its own',
    full: '`RESOURCE_EXHAUSTED` with the time after which to try again; the gateway waits so long and loses none',
  },
  hashesOfOrg: {
    what: 'Hashes of records that the nodes of an org hand in',
    org: 5_000,
    unit: 'per second',
    much: '5,000 a second, 160,000 at once',
    shared: 'The nodes of the org',
    full: 'As above',
  },
  hashes: {
    what: 'Hashes of records that all nodes hand in',
    all: 20_000,
    unit: 'per second',
    much: '20,000 a second, 640,000 at once',
    shared: 'All orgs, each up to its own rate',
    full: 'As above',
  },
  changesOfNode: {
    what: 'Calls by which a node has something stored (CheckIn, Renew, Write, ReportTelemetry, StreamUpdates)',
    one: 10,
    unit: 'per second',
    much: '10 a second, 200 at once',
    shared: 'Each node its own',
    full: '`RESOURCE_EXHAUSTED` with the time after which to try again',
  },
  changesOfOrg: {
    what: 'Such calls of all nodes of an org',
    org: 200,
    unit: 'per second',
    much: '200 a second, 4,000 at once',
    shared: 'The nodes of the org',
    full: 'As above',
  },
  largeMessages: {
    what: 'What one call of a node sends: 1 to 12 KiB, 160 KiB of hashes (4,096), a report of 1 MiB, what was written at a gateway (4 MiB), each with so many members',
    one: 4 * 1024 * 1024,
    unit: 'bytes',
    much: 'Each call its own bytes and members; compressed ones are not taken',
    shared: 'Each call its own',
    full: '`RESOURCE_EXHAUSTED` for bytes, `INVALID_ARGUMENT` for members, before it is read',
  },
  updateStreams: {
    what: 'Streams of updates',
    one: 1,
    shared: 'Each node its own',
    full: 'Another stream of the node ends the one before',
  },
  certificates: {
    what: 'Certificates of a node that count at the same time',
    one: 4,
    shared: 'Each node its own',
    full: 'The oldest that was not shown within a day counts no longer; where all were, the node gets no further one that day',
  },
  openLedgers: {
    what: 'Ledgers that are open',
    all: 256,
    shared: 'Orgs, one each',
    full: 'The one that was used least recently is closed; none that is in use or has hashes without a root',
  },
  keptUpdates: {
    what: 'Changes of an org that a gateway can catch up with',
    org: 1_000,
    shared: 'Each org its own',
    full: 'The oldest goes; who lacks it fetches everything',
  },
} as const satisfies Bounds;

/** Answers that the gateway itself reads: receivers of events, providers, helpers. */
export const OUTBOUND_BOUNDS = {} as const satisfies Bounds;

/** Every bounded place, by the heading under which the guide shows it ("Who shares what" in docs/guides/bodies-and-limits.md). */
export const BOUNDS: Readonly<Record<string, Bounds>> = {
  'Connections and answers': CONNECTION_BOUNDS,
  'Callers who have shown nothing': STRANGER_BOUNDS,
  'Policies and patterns': POLICY_BOUNDS,
  'Reports, lists and MCP': REPORT_BOUNDS,
  'Controls and events': CONTROL_BOUNDS,
  'What is laid down for an org': ENTITY_BOUNDS,
  'The control plane': CONTROL_PLANE_BOUNDS,
  'Answers that the gateway reads': OUTBOUND_BOUNDS,
};
