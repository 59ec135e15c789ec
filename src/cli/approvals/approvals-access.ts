import type { CliIo } from '../command.ts';
import { eachItem, GatewayClient } from '../gateway-client.ts';
import { givenKey } from '../management/given-key.ts';
import type { ApprovalsAccess } from './approvals-port.ts';

const PATH = '/v1/admin/approvals';

/**
 * With a management key the approvals of its org, with the admin token those of all.
 * @throws UsageError, Unusable
 */
export async function openApprovals(
  options: { readonly url?: string | undefined; readonly key?: string | undefined },
  io: CliIo,
): Promise<ApprovalsAccess> {
  const key = givenKey(options.key, io);
  if (key === undefined) return byAdmin(await GatewayClient.open(options.url, io));
  // Loaded here: the small commands do not wait for the operations.
  const { approvalsByKey } = await import('./approvals-by-key.ts');
  return approvalsByKey(GatewayClient.keyPlace(io, options.url), key);
}

function byAdmin(gateway: GatewayClient): ApprovalsAccess {
  const pathOf = (id: string) => `${PATH}/${encodeURIComponent(id)}`;
  return {
    each: ({ org, workload, status }, most) => {
      const given = Object.entries({ org_id: org, workload_id: workload, status });
      const query = new URLSearchParams();
      for (const [name, value] of given) if (value !== undefined) query.set(name, value);
      return eachItem(gateway, PATH, query, most);
    },
    one: (id) => gateway.json('GET', pathOf(id)),
    decide: (id, verb, body) => gateway.json('POST', `${pathOf(id)}/${verb}`, body),
  };
}
