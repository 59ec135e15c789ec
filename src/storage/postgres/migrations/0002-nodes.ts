/*
 * How far the journal of each node has been carried into the database. `position` is opaque text of the journal, empty
 * before the first commit. `incarnation` is that of the node's data folder: a folder that was copied, or made anew, has
 * another journal.
 */
export const NODES = `
CREATE TABLE gw_nodes (
  node text COLLATE "C" PRIMARY KEY,
  incarnation text COLLATE "C" NOT NULL,
  position text COLLATE "C" NOT NULL DEFAULT '',
  seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
`;
