/** What stands in the data folder of a control plane beside its store and its ledgers (decision 13.5). */
export const PLANE_FILES = {
  authority: 'ca.pem',
  bundleKey: 'bundle-key.pem',
  ledgerKey: 'ledger-key.pem',
  secretsKey: 'secrets-key',
  adminToken: 'admin-token',
} as const;
