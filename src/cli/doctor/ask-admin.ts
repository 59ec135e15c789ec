import { messageOf } from '../../base/lib/thrown.ts';
import { GatewayClient } from '../gateway-client.ts';
import { type Finding, type Patient, skipped } from './finding.ts';

/**
 * What a check finds in an answer of the gateway that the admin token opens. Where nobody answers, or the token is not there, the check is skipped, with the reason.
 * @param path of a GET, with its query
 */
export async function findingsOf<T>(
  id: string,
  { health, io, url }: Patient,
  path: string,
  judge: (answer: T) => readonly Finding[],
): Promise<readonly Finding[]> {
  if (health.kind !== 'gateway' || url === undefined) return [skipped(id, 'no gateway answers')];
  try {
    const client = await GatewayClient.open(url.origin, io);
    return judge((await client.json('GET', path)) as T);
  } catch (error) {
    return [skipped(id, messageOf(error))];
  }
}
