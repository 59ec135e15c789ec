import { type CliIo, UsageError } from '../command.ts';
import { GatewayClient, GatewayRefusal } from '../gateway-client.ts';
import type { Document } from './input.ts';
import { UnreadablePath } from './policy-target.ts';

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * A record of a running gateway.
 * @param url of the gateway; default: where a gateway with the same settings listens
 * @throws UnreadablePath when it has no such record; Unusable when it does not answer
 */
export async function fetchRecord(id: string, url: string | undefined, io: CliIo): Promise<Document> {
  if (!RECORD_ID.test(id)) throw new UsageError('--record takes the id of a record, as X-GW-Record-ID names it');
  const gateway = await GatewayClient.open(url, io);
  try {
    return { name: `record ${id}`, text: await gateway.text('GET', `/v1/records/${encodeURIComponent(id)}`) };
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    const said = error.status === 404 ? `has no record ${id}` : `answered ${error.status}`;
    throw new UnreadablePath(`${gateway.origin} ${said}`, { cause: error });
  }
}
