import { asCustomConnectorId, isCustomConnectorId } from '../../base/catalogue/connector-id.ts';
import type { BudgetService } from '../money/budgets.ts';
import type { CredentialService } from '../people/credentials.ts';
import type { CustomConnectorService, Precondition } from '../policy/custom-connectors.ts';
import type { Commit } from '../registers/commit.ts';
import type { CredentialName } from '../registers/org-key.ts';
import type { AlertService } from '../sending/alerts/alert-service.ts';

export interface RemovalGround {
  readonly customConnectors: CustomConnectorService;
  /** Undefined where a control plane owns them: there they have been removed before. */
  readonly credentials: CredentialService | undefined;
  readonly budgets: BudgetService;
  readonly alerts: Pick<AlertService, 'subscriptions'>;
}

/**
 * Removes a custom connector and, in the same commit, what stands for it alone (decision 10.11): its stored credentials
 * with their secrets, budget limits of it, and subscriptions to those. What people have written of it in an overlay
 * stays theirs: it fits no call any more.
 * @returns false when the org has none of this id
 * @throws GatewayError as `CustomConnectorService.remove`
 */
export async function removeConnector(
  { customConnectors, credentials, budgets, alerts }: RemovalGround,
  orgId: string,
  id: string,
  expect: Precondition,
  commit: Commit,
): Promise<boolean> {
  let keys: readonly CredentialName[] = [];
  let limits: readonly string[] = [];
  const done = await customConnectors.remove(orgId, id, expect, commit, (connectorId) => {
    keys = credentials?.namesFor(connectorId) ?? [];
    limits = budgets.list(orgId).flatMap(({ limit }) => {
      const { scope, scope_id: named = '' } = limit;
      return scope === 'provider' && names(named, connectorId) ? [limit.limit_id] : [];
    });
    return [
      ...(credentials?.removalOf(keys) ?? []),
      ...budgets.removalOf(limits),
      ...limits.flatMap((limitId) => alerts.subscriptions.removalOfLimit(limitId)),
    ];
  });
  if (!done) return false;
  await credentials?.refresh(keys);
  await budgets.refresh(limits);
  return true;
}

/** Limits made by earlier versions have their `scope_id` as it was given. */
function names(scopeId: string, connectorId: string): boolean {
  return isCustomConnectorId(connectorId) && scopeId.includes(':') && asCustomConnectorId(scopeId) === connectorId;
}
