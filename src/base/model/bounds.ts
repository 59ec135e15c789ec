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
export const CONNECTION_BOUNDS = {} as const satisfies Bounds;

/** Records and look-ups of callers who have shown nothing (decision 7.11). */
export const STRANGER_BOUNDS = {} as const satisfies Bounds;

/** Policies, overlays, patterns and price lists. */
export const POLICY_BOUNDS = {} as const satisfies Bounds;

/** Reports, lists and MCP: what one key has under way. */
export const REPORT_BOUNDS = {} as const satisfies Bounds;

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
  unpricedModels: {
    what: 'Models without a price that are listed',
    all: 100,
    shared: 'orgs',
    full: 'of the org with most the one that was charged least lately is left out',
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
  assignments: { what: 'nodes that credentials are assigned to, counted for each credential', org: 20_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  limits: { what: 'budget limits', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  overlays: { what: 'policy overlays, with those of single nodes', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  connectors: { what: 'custom connectors', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  apiKeys: { what: 'API keys that are not revoked', org: 10_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  managementKeys: { what: 'management keys that are not revoked', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  revokedKeys: { what: 'revoked keys of one kind, which lists still show', org: 1_000, shared: OF_ITS_OWN, full: 'the one that was made first is forgotten' },
  channels: { what: 'alert channels', org: 200, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  subscriptions: { what: 'alert subscriptions', org: 5_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  subscriptionsOfChannel: { what: 'subscriptions of one alert channel', one: 500, shared: 'each channel has its own', full: LIMIT_REACHED },
  exports: { what: 'export destinations', org: 50, shared: OF_ITS_OWN, full: LIMIT_REACHED },
  addons: { what: 'switched add-ons at the control plane', org: 1_000, shared: OF_ITS_OWN, full: LIMIT_REACHED },
} as const satisfies Bounds;

/** The control plane's ports and calls. */
export const CONTROL_PLANE_BOUNDS = {} as const satisfies Bounds;

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
