/*
 * What nodes that were forgotten may have spent of shared caps: what each of them held, by account, and the hour, in
 * UTC, in which it was charged. It counts as settled in every window that this hour lies in.
 */
export const CHARGES = `
CREATE TABLE gw_charges (
  account text COLLATE "C" NOT NULL,
  node text COLLATE "C" NOT NULL,
  hour text COLLATE "C" NOT NULL,
  amount numeric NOT NULL CHECK (amount > 0),
  PRIMARY KEY (account, node, hour)
);
`;
