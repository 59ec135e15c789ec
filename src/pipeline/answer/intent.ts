import type { UnhashedRecord } from '../../record/canonical-record.ts';
import { estimatedMetering, type RecordMetering } from '../../record/metering.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Hold } from '../parts/hold.ts';
import type { CallRoute, IntendedCall } from '../parts/parts.ts';

const ENDED = 'The gateway ended while this call was under way';

/**
 * Stores the record that a call will have if nothing else is ever heard of it (decision 6.8).
 * @throws GatewayError `record_store_unavailable`
 */
export async function writeIntent(call: IntendedCall, { stopAtCap }: PipelineSettings): Promise<void> {
  const { hold, route } = call;
  await hold.intend(intentOf(call.draft(), assumedMetering(hold, route)), stopAtCap);
}

/**
 * The same before anything of an answer leaves whose record is not stored yet: whoever has seen its id finds a record,
 * however the process ends.
 * @returns undefined when one is stored already
 */
export function intendAnswer(call: IntendedCall, settings: PipelineSettings): Promise<void> | undefined {
  return call.hold.hasIntent ? undefined : writeIntent(call, settings);
}

/** What a call is charged whose usage will not be known: what was set aside for it. Undefined where nothing was. */
export function assumedMetering({ grant }: Hold, { estimate, price, model }: CallRoute): RecordMetering | undefined {
  if (!grant || !estimate || !price) return undefined;
  const { tokensIn, tokensOutMax } = estimate;
  return estimatedMetering({ tokensIn, tokensOutMax, pico: BigInt(grant.pico), price, model });
}

/**
 * What was set aside is charged whether or not a cap holds the call: the provider has worked for it, and nothing more
 * is known.
 */
function intentOf(record: UnhashedRecord, metering: RecordMetering | undefined): UnhashedRecord {
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
