import { systemClock } from '../../base/lib/clock.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { readCall } from '../../policy-tools/given-request.ts';
import { type RecordedRequest, recordedRequest } from '../../policy-tools/recorded-request.ts';
import { type CliIo, GatewayRefusal, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { isUuid } from '../management/table-cells.ts';
import {
  compiledTarget,
  type Document,
  gatewayPolicy,
  parseJsonMap,
  policySettings,
  readTarget,
  surroundingsOf,
  UnreadablePath,
} from './policy-target.ts';

/** By which policy a record is judged. */
export interface JudgeOptions {
  /** A folder, bundle or rule file. */
  readonly policies?: string | undefined;
  /** A file of rates in the place of `GW_PRICING_FILE`. */
  readonly pricing?: string | undefined;
  /** The record is one of a running gateway, at this address or where a gateway with the same settings listens. */
  readonly gateway?: { readonly url: string | undefined } | undefined;
}

/** The request behind a record, with the policy that it is held against. */
export interface JudgedRecord {
  readonly policy: CompiledPolicy;
  readonly request: RecordedRequest;
  readonly contentHash: string | undefined;
}

/**
 * The policy of `policies`; of a record that is asked of a gateway that gateway's own, as the org of the record is
 * judged by it; else that of `GW_POLICIES_DIR`.
 * @param record a whole one
 * @throws UnreadablePath when the policy does not load, and for a record that policy was not asked about; Unusable when
 * the gateway does not answer
 */
export async function judgedRecord(record: Readonly<Record<string, unknown>>, options: JudgeOptions, io: CliIo): Promise<JudgedRecord> {
  const { policies, pricing, gateway } = options;
  const { dir, tier } = policySettings(io, undefined);
  const isAsked = policies === undefined && gateway !== undefined;
  const target = isAsked ? await gatewayPolicy(String(record['org_id']), gateway.url, io) : await readTarget(policies ?? dir, tier);
  const { contentHash } = target;
  const policy = compiledTarget(target);
  const { catalogue } = surroundingsOf(io, pricing);
  const request = recordedRequest(
    record,
    [policy],
    (facts) => readCall(facts, true, catalogue),
    () => contentHash,
  );
  if (request === undefined) throw new UnreadablePath('policy was not asked about the call of this record');
  return { policy, request, contentHash };
}

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * A record of a running gateway.
 * @param id its beginning or end will do @param url of the gateway; default: where a gateway with the same settings
 * listens @param holder the command, for the audit trail
 * @throws UsageError for what is no id; UnreadablePath when it has no such record; Unusable when it does not answer
 */
export async function fetchRecord(
  id: string,
  url: string | undefined,
  io: CliIo,
  holder: string,
): Promise<Readonly<Record<string, unknown>>> {
  if (!RECORD_ID.test(id)) throw new UsageError('a record is named by its id, as X-GW-Record-ID has it');
  const gateway = await GatewayClient.open(url, io);
  const read = (whole: string) => gateway.text('GET', `/v1/records/${encodeURIComponent(whole)}`);
  try {
    const text = await read(isUuid(id) ? id : ((await wholeRecordId(id, url, io, holder)) ?? id));
    const document: Document = { name: `record ${id}`, text };
    return parseJsonMap(document);
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    const said = error.status === 404 ? `has no record ${id}` : `answered ${error.status}`;
    throw new UnreadablePath(`${gateway.origin} ${said}`, { cause: error });
  }
}

/** What a person has shortened is looked for among the newest records of the org that this shell means. */
async function wholeRecordId(short: string, url: string | undefined, io: CliIo, holder: string): Promise<string | undefined> {
  // The operations are loaded by what needs them alone.
  const [{ RecordSource }, { wholeId }] = await Promise.all([import('../logs/record-source.ts'), import('../management/short-ids.ts')]);
  const records = new RecordSource({ url, key: undefined, org: undefined }, {}, io, systemClock, holder);
  try {
    return await wholeId({ short, list: 'mgmt.records.list', changes: false, removes: false }, records.newestFirst(0), io);
  } finally {
    await records.close();
  }
}
