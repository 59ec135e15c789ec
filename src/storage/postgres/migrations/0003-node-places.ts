/*
 * Where a node runs, in which version, and what it has not carried yet, as it said at `seen_at`. `place` is the machine
 * and the data folder: who comes from the same place may take over at once, since a folder is open in one process only.
 */
export const NODE_PLACES = `
ALTER TABLE gw_nodes
  ADD COLUMN place text NOT NULL DEFAULT '',
  ADD COLUMN version text NOT NULL DEFAULT '',
  ADD COLUMN registered_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN backlog_records bigint NOT NULL DEFAULT 0,
  ADD COLUMN backlog_seconds bigint NOT NULL DEFAULT 0;
`;
