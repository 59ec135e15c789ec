import { type Clock, timestamp } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { Usage } from '../base/model/usage.ts';
import { canonicalRecord, type UnhashedRecord } from '../record/canonical-record.ts';
import { rollUp } from '../record/roll-up.ts';
import type { Store } from '../storage/contract/store.ts';
import { dropIntent, INTENTS as SPACE } from './drop-intent.ts';
import type { Exchange } from './exchange.ts';
import { estimatedMetering, meteringFrom } from './metering-of.ts';
import { recordOf } from './record-of.ts';
import type { Pipeline } from './stage.ts';

const ENDED = 'The gateway ended while this call was under way';

/** Stores the record that this call will have if nothing else is ever heard of it (decision 6.8). @throws GatewayError `record_store_unavailable` */
export async function writeIntent(exchange: Exchange, pipeline: Pipeline): Promise<undefined> {
  const { store, clock, settings } = pipeline;
  const value = intentOf(exchange, recordOf(exchange, pipeline, clock.now()));
  // From now on: what is committed behind it, while it is still being written, takes it away.
  exchange.hasIntent = true;
  try {
    await store.commit(undefined, [{ op: 'put', space: SPACE, key: exchange.recordId, value }]);
  } catch (error) {
    exchange.hasIntent = false;
    throw error;
  }
  if (settings.stopAtCap) exchange.intent = value;
  return undefined;
}

/**
 * The same before anything of an answer leaves whose record is not stored yet: whoever has seen its id finds a record, however the process ends.
 * @returns undefined when one is stored already
 */
export function intendAnswer(exchange: Exchange, pipeline: Pipeline): Promise<undefined> | undefined {
  return exchange.hasIntent ? undefined : writeIntent(exchange, pipeline);
}

/**
 * A followed stream has grown beyond what its intent is charged: from now on it is charged what was seen. Nobody waits for that, and the stream is not over yet, so
 * that the commit which settles it comes behind.
 */
export function growIntent(exchange: Exchange, usage: Usage, { store, log, settings }: Pipeline): void {
  const { intent, price, sendModel, recordId } = exchange;
  if (intent === undefined || price === undefined) return;
  const metering = meteringFrom({ usage, reported: false, price, model: sendModel, cachedRates: settings.pricingCached });
  store
    .commit(undefined, [{ op: 'put', space: SPACE, key: recordId, value: { ...intent, metering } }])
    .catch((error: unknown) => log.warn({ err: error, record_id: recordId }, 'what a stream has cost so far could not be stored'));
}

/** The call was not made, and leaves no record. */
export function removeIntent(recordId: string, { store, log }: Pipeline): void {
  store
    .commit(undefined, [dropIntent(recordId)])
    .catch((error: unknown) => log.warn({ err: error, record_id: recordId }, 'an intent could not be removed; the next start charges it'));
}

/** What was set aside is charged whether or not a cap holds the call: the provider has worked for it, and nothing more is known. */
function intentOf(exchange: Exchange, record: UnhashedRecord): UnhashedRecord {
  const metering = exchange.reservation && estimatedMetering(exchange);
  const message = metering ? `${ENDED}; it is charged at what was set aside for it.` : `${ENDED}.`;
  return {
    ...record,
    decision: 'error',
    reason: message,
    reason_codes: ['gateway_restarted'],
    metering,
    error: { code: 'gateway_restarted', message },
  };
}

/** Makes records of the intents that are still open: their calls were under way when the process ended. @returns how many there were */
export async function recoverIntents(store: Store, clock: Clock, log: Logger): Promise<number> {
  const open = await store.list(SPACE);
  for (const { key, value } of open) {
    const now = clock.now();
    const unhashed = { ...(value as UnhashedRecord), completed_at: timestamp(now) };
    const { text, hash } = canonicalRecord(unhashed);
    const record = { ...unhashed, record_hash: hash } as ExecutionRecord;
    await store.commit({ record_id: key, record_hash: hash, text, committed_at: now }, [...rollUp(record), dropIntent(key)]);
  }
  if (open.length > 0)
    log.warn({ calls: open.length }, 'calls were under way when the gateway last ended; they are charged at what was set aside for them');
  return open.length;
}
