import type { GatewayOperation } from '../../operations/operation.ts';
import type { Arguments, ManagementClient } from './management-client.ts';

const AT_ONCE = 500;

/** The items of a list of the management API, page by page, at most `most`. @throws as `ManagementClient.text` */
export async function* listByKey(
  client: ManagementClient,
  operation: GatewayOperation,
  args: Arguments,
  most: number,
): AsyncGenerator<unknown> {
  let left = most;
  for await (const page of client.pages(operation, { ...args, limit: Math.min(left, AT_ONCE) })) {
    yield* page.slice(0, left);
    left -= page.length;
    if (left <= 0) return;
  }
}
