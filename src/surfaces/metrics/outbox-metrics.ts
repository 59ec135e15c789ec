/* What is measured of durable events that wait; rows of the one table. */

export const OUTBOX_METRICS = {
  outboxWaiting: {
    name: 'gw_outbox_waiting',
    type: 'gauge',
    labels: [],
    help: 'Durable events that some destination has not taken yet.',
  },
  outboxDropped: {
    name: 'gw_outbox_dropped_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Durable events that were dropped before every destination had taken them: more than 10,000 waited, and their org had most of them (`number`), or they were older than seven days (`age`).',
  },
  outboxDroppedOfOrg: {
    name: 'gw_outbox_org_dropped_total',
    type: 'counter',
    labels: ['org_id', 'reason'],
    help: 'The same by the org that has lost them; from the first of an org on.',
  },
} as const;
