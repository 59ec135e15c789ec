import type { Bounds } from './bound.ts';

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
  tunnels: {
    what: 'open CONNECTs, intercepted and passed, and WebSockets',
    much: '`GW_MAX_TUNNELS`; one client half, but where there are fewer than 8',
    shared:
      'workloads and API keys that were shown with the CONNECT, else addresses (of IPv6 the first 64 bits); those of `GW_TRUSTED_PROXIES` leave a quarter to who shows one',
    full: '429 `too_many_tunnels` with `Retry-After`, to that client',
  },
  connections: {
    what: 'connections of clients to the ports, with those of tunnels',
    much: 'twice `GW_MAX_TUNNELS` and at least 2,048, but half of the files that the process may open at most; one address half',
    shared: 'addresses; those of `GW_TRUSTED_PROXIES` stand for many clients, and share with nobody',
    full: 'the oldest connections of that address that have nothing under way are closed, or of the address that has most; where there are none the new one is',
  },
  calls: {
    what: 'HTTP calls under way, on all connections',
    much: '`GW_MAX_TUNNELS`, and at least 1,024; one client half',
    shared:
      'addresses; where an address has its share, workloads and API keys that are shown have their own, and so have the routes of the gateway itself; addresses of `GW_TRUSTED_PROXIES` leave a quarter to them',
    full: '503 `overloaded` with `Retry-After`, to that client',
  },
  streams: { what: 'calls at once on one HTTP/2 connection', one: 128, shared: 'each connection', full: 'they wait for their turn' },
  begins: {
    what: 'calls on HTTP/2 connections that begin in one turn of the event loop',
    one: 64,
    shared: 'addresses',
    full: 'they begin in the next turns, unless they were reset by then; where so many were reset in one turn, the connections of the address are read further in the next',
  },
  pipelined: {
    what: 'pipelined requests on one HTTP/1.1 connection; one is worked on when the answer before it has left',
    one: 32,
    much: '32, of 64 KiB in all',
    shared: 'each connection',
    full: 'the connection is reset',
  },
  tinyPieces: {
    what: 'pieces of bodies of less than 16 bytes each that come at once: chunks of HTTP/1.1 requests, DATA frames of HTTP/2 requests and of answers of HTTP/2 origins',
    one: 20_000,
    much: 'and 200,000 a second',
    shared: 'addresses: of clients, and of origins',
    full: 'the connection is read no faster; nothing is lost or refused',
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
    what: 'bytes of answers of which the client of an HTTP/2 connection has taken next to nothing for ten seconds',
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
  mcpStrangers: {
    what: 'connections to `gw-mcp --listen` on which its token was not shown',
    all: 128,
    shared: 'addresses',
    full: 'the oldest such connection of that address is closed, or of the address that has most',
  },
  mcpConnections: {
    what: 'connections to `gw-mcp --listen` on which it was, or where none is needed a call was made',
    all: 512,
    one: 256,
    shared: 'nobody: there is one token',
    full: 'the new connection is closed',
  },
  unreadFor: {
    what: 'time in which a client must take 16 KiB, or all that waits for him',
    one: 600_000,
    unit: 'milliseconds',
    shared: 'each connection, on HTTP/2 each stream; not tunnels that pass',
    full: 'the connection is reset (HTTP/2: the stream), and the call at the provider is stopped',
  },
} as const satisfies Bounds;

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
