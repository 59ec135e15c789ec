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
  tunnels: {
    what: 'open CONNECTs, intercepted and passed, and WebSockets',
    much: '`GW_MAX_TUNNELS`; one client half',
    shared: 'workloads and API keys that were shown with the CONNECT, else addresses (of IPv6 the first 64 bits)',
    full: '429 `too_many_tunnels` with `Retry-After`, to that client',
  },
  connections: {
    what: 'connections of clients to the ports, with those of tunnels',
    much: 'twice `GW_MAX_TUNNELS`, but half of the files that the process may open at most; one address half',
    shared: 'addresses; those of `GW_TRUSTED_PROXIES` stand for many clients, and share with nobody',
    full: 'the oldest connections of that address that have nothing under way are closed, or of the address that has most; where there are none the new one is',
  },
  calls: {
    what: 'HTTP calls under way, on all connections',
    much: '`GW_MAX_TUNNELS`; one client half',
    shared:
      'addresses; where an address has its share, workloads and API keys that are shown have their own, and so have the routes of the gateway itself',
    full: '503 `overloaded` with `Retry-After`, to that client',
  },
  streams: { what: 'calls at once on one HTTP/2 connection', one: 128, shared: 'each connection', full: 'they wait for their turn' },
  pipelined: {
    what: 'pipelined requests on one HTTP/1.1 connection; one is worked on when the answer before it has left',
    one: 32,
    much: '32, of 64 KiB in all',
    shared: 'each connection',
    full: 'the connection is reset',
  },
  unread: {
    what: 'bytes of answers, WebSockets and tunnels that clients have not taken',
    much: 'half of `GW_MAX_BUFFERED_BYTES`, 16 MiB at least; one address half of that',
    shared: 'addresses',
    full: 'the connections of that address, or of the one that holds most, that have taken least for longest are closed',
  },
  unreadOfAnswer: {
    what: 'bytes of an answer that are given to a connection at a time',
    one: 65_536,
    unit: 'bytes',
    shared: 'each answer',
    full: 'the rest waits until they were taken; so does the provider from whom it comes',
  },
  unreadOfSession: {
    what: 'bytes of answers that the client of an HTTP/2 connection has not taken',
    one: 16_777_216,
    unit: 'bytes',
    shared: 'each connection',
    full: 'further streams are refused (REFUSED_STREAM), which is safe to try again',
  },
  unreadOfSmallServer: {
    what: 'bytes of answers that clients have not taken, at the HTTP port of the control plane and at `gw-mcp --listen`',
    all: 33_554_432,
    one: 16_777_216,
    unit: 'bytes',
    shared: 'addresses; each of the two has its own',
    full: 'the connections of that address, or of the one that holds most, that have taken least for longest are closed',
  },
  bodiesOfSmallServer: {
    what: 'bodies that are held there',
    all: 67_108_864,
    one: 33_554_432,
    unit: 'bytes',
    shared: 'addresses; each of the two has its own',
    full: '503 `overloaded`; a body of which less than 16 KiB came within 5 s gives its place to one that needs it',
  },
  unreadFor: {
    what: 'time in which a client must take 16 KiB, or all that waits for him',
    one: 120_000,
    unit: 'milliseconds',
    shared: 'each connection, on HTTP/2 each stream; not tunnels that pass',
    full: 'the connection is reset (HTTP/2: the stream), and the call at the provider is stopped',
  },
} as const satisfies Bounds;

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
