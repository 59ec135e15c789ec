/*
 * What each node holds of the caps that nodes share. `number` is that of the node's last exchange. `told` is the
 * timeline of the server to which it has last said all that it holds; null: it is no member yet. The spend of each
 * scope by hour is made here of the counters that are there; from now on each commit adds to it (`spend-hours.ts`).
 */
export const LEASES = `
ALTER TABLE gw_nodes ADD COLUMN number bigint NOT NULL DEFAULT 0, ADD COLUMN told int;

CREATE TABLE gw_leases (
  account text COLLATE "C" NOT NULL,
  node text COLLATE "C" NOT NULL REFERENCES gw_nodes ON DELETE CASCADE ON UPDATE CASCADE,
  amount numeric NOT NULL CHECK (amount > 0),
  PRIMARY KEY (account, node)
) WITH (fillfactor = 50);
CREATE INDEX gw_leases_of_node ON gw_leases (node);

INSERT INTO gw_counters (space, key, name, amount)
WITH parts AS (
  SELECT space, split_part(key, '|', 1) AS a, split_part(key, '|', 2) AS b, split_part(key, '|', 3) AS c,
         split_part(key, '|', 4) AS d, name, amount
  FROM gw_counters WHERE space IN ('usage_quarter', 'spend_day', 'spend_provider_day') AND name LIKE 'cost_pico%'
), hours AS (
  SELECT space, b AS org, c AS id, a || 'T' || substr(name, 12) AS hour, amount
  FROM parts WHERE space <> 'usage_quarter' AND name LIKE 'cost_pico_h__'
  UNION ALL
  SELECT space, b, c, a || 'T00', CASE WHEN name = 'cost_pico' THEN amount ELSE -amount END
  FROM parts WHERE space <> 'usage_quarter' AND (name = 'cost_pico' OR name LIKE 'cost_pico_h__')
), spent AS (
  SELECT a || '|' || of.scope || '|' || b AS key, amount
  FROM parts, LATERAL (VALUES ('org|'), ('project|'), ('workload|' || c), ('provider|' || d)) AS of (scope)
  WHERE space = 'usage_quarter' AND name ~ '^cost_pico_[0-3]$'
  UNION ALL
  SELECT org || '|provider|' || id || '|' || hour, amount FROM hours WHERE space = 'spend_provider_day'
  UNION ALL
  SELECT org || '|project|' || of.id || '|' || hour, of.amount
  FROM hours, LATERAL (VALUES (hours.id, hours.amount), ('', -hours.amount)) AS of (id, amount)
  WHERE space = 'spend_day' AND hours.id <> ''
)
SELECT 'spend_hour', key, 'cost_pico', sum(amount) FROM spent GROUP BY key HAVING sum(amount) <> 0;
`;
