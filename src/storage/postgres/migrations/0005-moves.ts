/*
 * Embedded stores that are being moved into the database, or were. `folder` is the incarnation of the data folder,
 * `source` is opaque text that another state of its store does not have. `after` is how far the stage has come, opaque
 * text too. A row is changed in the transaction that stores what it tells of.
 */
export const MOVES = `
CREATE TABLE gw_moves (
  folder text COLLATE "C" PRIMARY KEY,
  node text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  stage text COLLATE "C" NOT NULL,
  after text COLLATE "C" NOT NULL DEFAULT '',
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
) WITH (fillfactor = 50);
`;
