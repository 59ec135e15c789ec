import { entryOf } from '../../operations/operation.ts';
import { OPERATIONS } from '../../operations/operation-table.ts';
import { Unusable } from '../command.ts';
import type { Arguments, ManagementClient } from '../management/management-client.ts';

/** Where many records are read for an answer, nothing may come for a while. */
export const TIMEOUT_MS = 600_000;

/**
 * The text of an answer, and what it says, held to what its operation promises.
 * @throws as the client does; Unusable for any other answer
 */
export async function promisedAnswer<T>(client: ManagementClient, id: string, args: Arguments): Promise<T> {
  const operation = entryOf(OPERATIONS, id);
  const text = await client.text(operation, args, {}, TIMEOUT_MS);
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch (error) {
    throw new Unusable('what the gateway answers is not JSON: is it a gateway?', { cause: error });
  }
  if (operation.output.schema?.safeParse(answer).success !== true)
    throw new Unusable(`the gateway answers something else than ${id} promises`);
  return answer as T;
}
