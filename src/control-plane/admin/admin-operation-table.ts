import type { AdminOperation } from './admin-operation.ts';
import { BUNDLE_ADMIN_OPERATIONS } from './bundle-admin-operations.ts';
import { ENTITY_ADMIN_OPERATIONS } from './entity-admin-operations.ts';
import { LEDGER_ADMIN_OPERATIONS } from './ledger-admin-operations.ts';
import { NODE_ADMIN_OPERATIONS } from './node-admin-operations.ts';
import { ORG_ADMIN_OPERATIONS } from './org-admin-operations.ts';
import { OVERLAY_ADMIN_OPERATIONS } from './overlay-admin-operations.ts';
import { SIGNING_KEY_ADMIN_OPERATIONS } from './signing-key-admin-operations.ts';
import { WATCH_ADMIN_OPERATIONS } from './watch-admin-operations.ts';

/** Everything that can be asked of the control plane, but for `/metrics`. */
export const ADMIN_OPERATIONS: readonly AdminOperation[] = [
  ...ORG_ADMIN_OPERATIONS,
  ...BUNDLE_ADMIN_OPERATIONS,
  ...OVERLAY_ADMIN_OPERATIONS,
  ...ENTITY_ADMIN_OPERATIONS,
  ...NODE_ADMIN_OPERATIONS,
  ...LEDGER_ADMIN_OPERATIONS,
  ...SIGNING_KEY_ADMIN_OPERATIONS,
  ...WATCH_ADMIN_OPERATIONS,
];
