import { APPROVAL_OPERATIONS } from '../../operations/approval-operations.ts';
import { entryOf } from '../../operations/operation.ts';
import { GatewayRefusal, UsageError } from '../command.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { ONE_ORG } from '../management/given-key.ts';
import { listByKey } from '../management/list-by-key.ts';
import { ManagementClient } from '../management/management-client.ts';
import type { ApprovalFilters, ApprovalsAccess } from './approvals-port.ts';

/** Approvals of the org of a management key. */
export function approvalsByKey(gateway: GatewayAddress, key: string): ApprovalsAccess {
  const client = new ManagementClient(gateway, key);
  const entry = (verb: string) => entryOf(APPROVAL_OPERATIONS, `mgmt.approvals.${verb}`);
  const each = ({ org, workload, status }: ApprovalFilters, most: number): AsyncGenerator<unknown> => {
    if (org !== undefined) throw new UsageError(ONE_ORG);
    const args = { ...(workload === undefined ? {} : { workload_id: workload }), ...(status === undefined ? {} : { status }) };
    return listByKey(client, entry('list'), args, most);
  };
  return {
    each,
    one: async (id) => {
      for await (const [found] of client.pages(entry('list'), { approval_id: id, limit: 1 })) if (found !== undefined) return found;
      throw new GatewayRefusal(404, 'not_found', `There is no approval ${id}.`);
    },
    decide: async (id, verb, body) => JSON.parse(await client.text(entry(verb), { id, ...body })) as unknown,
  };
}
