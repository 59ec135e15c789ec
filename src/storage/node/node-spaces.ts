/*
 * Where the entities of each space of a node's store live. A space that stands in neither list is shared: it is written
 * straight to the database, where every node reads it.
 */

/**
 * What is one node's own business, and goes on while the database is away: it stays in the node's own store and is
 * never carried.
 */
const OF_NODE: ReadonlySet<string> = new Set([
  // Calls under way, and events and records that this node delivers.
  'intent',
  'outbox',
  'outbox_cursor',
  'export_cursor',
  // The last time that this node's clock was known to be right.
  'clock',
  // Baselines of the callers that this node has seen.
  'risk_profile',
]);

/**
 * What is written with a call's record and says the same whoever writes it: it is put into the journal, so that no call
 * waits for the database, and carried with it. Of two values the one that arrives last stays.
 */
const CARRIED: ReadonlySet<string> = new Set(['attributed_name', 'budget_alerted', 'budget_alert_posted']);

/** Where a space is kept. */
export type SpaceHome = 'node' | 'carried' | 'shared';

/** True where its entities stay in the node's own store. */
export function isNodeSpace(space: string): boolean {
  return OF_NODE.has(space);
}

export function homeOf(space: string): SpaceHome {
  if (OF_NODE.has(space)) return 'node';
  return CARRIED.has(space) ? 'carried' : 'shared';
}

/** All spaces that are not shared. */
export const UNSHARED_SPACES: readonly string[] = [...OF_NODE, ...CARRIED];
