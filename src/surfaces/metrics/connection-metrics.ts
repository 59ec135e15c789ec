/** Rows of the table of metrics: connections of clients. */
export const CONNECTION_METRICS = {
  connectionsOpen: {
    name: 'gw_connections_open',
    type: 'gauge',
    labels: [],
    help: 'Connections of clients to all ports, with those of tunnels.',
  },
  unreadBytes: {
    name: 'gw_unread_answer_bytes',
    type: 'gauge',
    labels: [],
    help: 'Bytes of answers, WebSockets and tunnels that clients have not taken; above half of `GW_MAX_BUFFERED_BYTES` connections are closed.',
  },
  connectionsClosed: {
    name: 'gw_connections_closed_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Connections of clients that the gateway closed because nobody read what was sent on them (`unread`; of HTTP/2 streams), to make room for others (`made_room`), or because there was no room (`refused`).',
  },
} as const;
