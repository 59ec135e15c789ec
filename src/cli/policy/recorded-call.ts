import { systemClock } from '../../base/lib/clock.ts';
import { type CliIo, UsageError } from '../command.ts';
import { GatewayClient, GatewayRefusal } from '../gateway-client.ts';
import { isUuid } from '../management/table-cells.ts';
import type { Document } from './input.ts';
import { UnreadablePath } from './policy-target.ts';

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * A record of a running gateway.
 * @param id its beginning or end will do @param url of the gateway; default: where a gateway with the same settings listens
 * @throws UnreadablePath when it has no such record; Unusable when it does not answer
 */
export async function fetchRecord(id: string, url: string | undefined, io: CliIo): Promise<Document> {
  if (!RECORD_ID.test(id)) throw new UsageError('--record takes the id of a record, as X-GW-Record-ID names it');
  const gateway = await GatewayClient.open(url, io);
  const read = (whole: string) => gateway.text('GET', `/v1/records/${encodeURIComponent(whole)}`);
  try {
    return { name: `record ${id}`, text: await read(isUuid(id) ? id : ((await wholeRecordId(id, url, io)) ?? id)) };
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    const said = error.status === 404 ? `has no record ${id}` : `answered ${error.status}`;
    throw new UnreadablePath(`${gateway.origin} ${said}`, { cause: error });
  }
}

/** What a person has shortened is looked for among the newest records of the org that this shell means. */
async function wholeRecordId(short: string, url: string | undefined, io: CliIo): Promise<string | undefined> {
  // The operations are loaded by what needs them alone.
  const [{ RecordSource }, { wholeId }] = await Promise.all([import('../logs/record-source.ts'), import('../management/short-ids.ts')]);
  const records = new RecordSource({ url, key: undefined, org: undefined }, {}, io, systemClock, 'gw policy explain');
  try {
    return await wholeId({ short, list: 'mgmt.records.list', changes: false, removes: false }, records.newestFirst(0), io);
  } finally {
    await records.close();
  }
}
