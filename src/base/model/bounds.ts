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
export const CONTROL_BOUNDS = {} as const satisfies Bounds;

/** What people lay down for an org: workloads, keys, limits, credentials, connectors. */
export const ENTITY_BOUNDS = {} as const satisfies Bounds;

/** The control plane's ports and calls. */
export const CONTROL_PLANE_BOUNDS = {} as const satisfies Bounds;

/** Answers that the gateway itself reads: receivers of events, providers, helpers. */
export const OUTBOUND_BOUNDS = {
  answerToPost: {
    what: 'answer of a receiver: alerts to chats and webhooks, exported events, traces, usage reports',
    one: 16_384,
    unit: 'bytes',
    shared: 'each answer',
    full: 'what came is the answer, and the connection is closed; 15 seconds for all of it',
  },
  priceList: {
    what: 'price list that is fetched',
    one: 16_777_216,
    unit: 'bytes',
    shared: 'each list',
    full: 'the connection is closed, and the list before stays in force',
  },
  mailServer: {
    what: 'what a mail server says while a mail is handed over',
    one: 65_536,
    unit: 'bytes',
    shared: 'each mail',
    full: 'the connection is closed, and the mail is tried again; two minutes for all of it',
  },
  syslogServer: {
    what: 'what a syslog server says, which nobody asked for',
    one: 16_384,
    unit: 'bytes',
    shared: 'each batch',
    full: 'the connection is closed; events that were not written by then are tried again',
  },
  parentProxy: {
    what: 'head of the answer of a parent proxy to a CONNECT',
    one: 16_384,
    unit: 'bytes',
    shared: 'each connection',
    full: 'the connection is closed, and its call is answered 502',
  },
  gatewayAnswer: {
    what: 'answer of a gateway to a command, or to `gw-mcp`',
    one: 16_777_216,
    unit: 'bytes',
    shared: 'each answer',
    full: 'the connection is closed, and the command fails',
  },
} as const satisfies Bounds;

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
