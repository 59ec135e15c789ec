import type { Bounds } from './bound.ts';

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
