/* What the pages say that show how the gateway itself is run. */
export const RUN_WORDS = {
  nodes: {
    title: 'Nodes',
    allThere: (count: number) => (count === 1 ? 'One node, and it is there' : `${count} nodes, and all are there`),
    someSilent: (silent: number, all: number) => `${silent} of ${all} not heard of for a minute`,
    columns: { node: 'Node', state: 'State', behind: 'Behind', holds: 'Holds of caps', version: 'Version', since: 'Heard since' },
    caption: 'Gateways that serve the org',
    thisOne: 'the one that you ask',
    there: 'there',
    silent: 'silent',
    notReady: 'not ready',
    heardOf: (ago: string) => `heard of ${ago}`,
    notBehind: 'nothing',
    behind: (records: string, time: string) => `${records} records, ${time}`,
    holdsNothing: 'nothing',
    holds: (usd: string, accounts: string) => `${usd} in ${accounts} accounts`,
    staysTaken: 'stays taken while it is silent',
    around: 'What they have in common',
    facts: {
      store: 'Store',
      policy: 'Policy',
      controlPlane: 'Control plane',
      hashes: 'Hashes handed in',
      notReady: 'Not ready',
      warnings: 'Warnings',
    },
    alone: 'of its own: a gateway alone',
    shared: 'a database that all nodes share',
    sequence: (sequence: number) => `number ${sequence} of the control plane`,
    controlPlane: { connected: 'connected', offline: 'not reached', unconfigured: 'none' },
    offlineSince: (ago: string) => `since ${ago}`,
    postures: { permissive: 'and calls go on', strict: 'and calls are refused' },
    forget: 'A node that never comes back can be forgotten. What it held of caps then counts as spent, since it may have spent it:',
    forgetCommand: (node: string) => `gw nodes forget ${node}`,
  },
  audit: {
    title: 'Audit',
    sub: 'Who has changed what, the newest first',
    filters: { principal: 'Who', operation: 'What', object: 'Which', range: 'Since' },
    ranges: { '': 'any time', '24h': 'Last 24 hours', '7d': 'Last 7 days', '30d': 'Last 30 days' },
    columns: { time: 'Time', what: 'What', who: 'Who', changes: 'Before → after', member: 'Member', before: 'Before', after: 'After' },
    caption: 'Changes that people have made, the newest first',
    changesCaption: 'What was changed, member by member',
    operation: (id: string) =>
      id
        .replace(/^mgmt\./, '')
        .replaceAll('.', ' ')
        .replaceAll('_', ' '),
    change: (member: string, before: string | undefined, after: string | undefined) =>
      after === undefined
        ? `− ${member}: ${before ?? ''}`
        : before === undefined
          ? `+ ${member}: ${after}`
          : `${member}: ${before} → ${after}`,
    more: (count: number) => (count === 1 ? 'and 1 more' : `and ${count} more`),
    notShown: '(not shown)',
    nothing: 'nothing',
    entry: 'Change',
    facts: { when: 'When', who: 'Who', what: 'What', object: 'Which', from: 'From' },
    atNode: (address: string, node: string) => `${address}, by the gateway ${node}`,
    noChanges: 'It has no members to show.',
    notKept: (count: number) => `${count} more changes were made, of which the entry keeps nothing.`,
    hashes: 'Secrets are never shown; the hash of every value is in the entry, and in the title of each cell.',
    gone: 'This entry is not there any more, or is one of another org.',
    none: 'No change fits these filters',
    noneHint: 'Take a filter away, or look further back. A filter takes a whole name: budgets, policy, olga.',
    noneAtAll: 'Nobody has changed anything yet',
    noneAtAllHint: 'Each change of a key, a policy, a limit or a switch leaves an entry here, together with the change.',
  },
} as const;
