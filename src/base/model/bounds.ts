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
  usedKeys: {
    what: 'Keys in use that are found without the store, of each kind',
    all: 10_000,
    shared: 'Everybody who has a good key',
    full: 'That which was used longest ago is read from the store; unknown keys take none of these places',
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
export const POLICY_BOUNDS = {} as const satisfies Bounds;

/** Reports, lists and MCP: what one key has under way. */
export const REPORT_BOUNDS = {} as const satisfies Bounds;

/** Controls and events: approvals, outbox, quarantine, risk, discovery, idempotency. */
export const CONTROL_BOUNDS = {} as const satisfies Bounds;

/** What people lay down for an org: workloads, keys, limits, credentials, connectors. */
export const ENTITY_BOUNDS = {} as const satisfies Bounds;

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
