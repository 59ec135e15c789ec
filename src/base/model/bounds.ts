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
