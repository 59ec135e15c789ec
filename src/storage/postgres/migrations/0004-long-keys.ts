/* The whole of keys that are longer than an index takes; their rows have `stored` in the place of it. */
export const LONG_KEYS = `
CREATE TABLE gw_long_keys (
  stored text COLLATE "C" PRIMARY KEY,
  key text NOT NULL
);
`;
