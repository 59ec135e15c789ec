/*
 * The first tables. Keys have the collation "C", so that their order is that of code units on every server, and no
 * upgrade of its libraries changes it.
 *
 * `gw_state` is one row that every transaction that writes locks first and counts up: the numbers of changes become
 * visible in their order, and who has seen one has seen all before it. `gw_writers` has the last batch of each writer,
 * by which it finds out what became of a transaction whose end it was not told. What was deleted stays in
 * `gw_deletions` for a while, for those who watch.
 *
 * A record is in the partition of the month, in UTC, in which it was committed; `place` is where it stands in commit
 * order, and `facets` has every text by which it is found. `gw_hours` says between which places the records of an hour
 * stand: those of a time are near each other in commit order, but neither order follows from the other.
 */
export const FIRST_TABLES = `
CREATE TABLE gw_schema (version integer NOT NULL);

CREATE TABLE gw_state (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  change bigint NOT NULL DEFAULT 0,
  last_record_id text COLLATE "C" NOT NULL DEFAULT '',
  forgotten bigint NOT NULL DEFAULT 0,
  position_key text NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE gw_writers (
  writer text COLLATE "C" PRIMARY KEY,
  batch bigint NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE gw_entities (
  space text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  version text COLLATE "C" NOT NULL,
  change bigint NOT NULL,
  PRIMARY KEY (space, key)
);
CREATE INDEX gw_entities_by_change ON gw_entities (change);

CREATE TABLE gw_deletions (
  space text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  change bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (space, key)
);
CREATE INDEX gw_deletions_by_change ON gw_deletions (change);

CREATE TABLE gw_counters (
  space text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  amount numeric NOT NULL,
  PRIMARY KEY (space, key, name)
) WITH (fillfactor = 80);

CREATE TABLE gw_records (
  place bigint NOT NULL,
  committed_at timestamptz NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  record_hash bytea NOT NULL,
  text text NOT NULL,
  org_id text COLLATE "C",
  workload_id text COLLATE "C",
  decision text COLLATE "C",
  model text COLLATE "C",
  cost_pico numeric,
  facets text[] COLLATE "C" NOT NULL
) PARTITION BY RANGE (committed_at);
CREATE TABLE gw_hours (
  hour bigint PRIMARY KEY,
  first_place bigint NOT NULL,
  last_place bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX gw_records_by_place ON gw_records (place);
CREATE INDEX gw_records_by_org ON gw_records (org_id, place);
CREATE INDEX gw_records_by_workload ON gw_records (org_id, workload_id, place);
CREATE INDEX gw_records_by_decision ON gw_records (org_id, decision, place);
CREATE INDEX gw_records_by_time ON gw_records (committed_at);
CREATE INDEX gw_records_by_hash ON gw_records (record_hash);
CREATE INDEX gw_records_by_facet ON gw_records USING gin (facets) WITH (gin_pending_list_limit = 1024);
CREATE UNIQUE INDEX gw_records_by_id ON gw_records (record_id, committed_at);
`;
