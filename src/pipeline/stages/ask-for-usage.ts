import { setJsonMember } from '../../inbound/normalise/json-edit.ts';
import type { Stage } from '../stage.ts';
import { takeBytes } from './mutate.ts';

const INCLUDE_USAGE = ['stream_options', 'include_usage'] as const;
/** Kind of the providers that check a signature. To any other one it is a word of the caller's, which must not keep its stream from being metered. */
const CHECKS_SIGNATURES = 'aws';

/**
 * `GW_METER_INJECT_USAGE`: asks for the usage of a stream whose caller does not. What policy has seen and the record's hash stay the caller's request; one that
 * its caller signed is left as it is.
 */
export const askForUsage: Stage = {
  name: 'ask for usage',
  run(exchange, { settings }) {
    const { aiBody, operation, stream, signedHeaders, provider } = exchange;
    if (!settings.injectUsage || !stream || operation?.dialect?.usageOnRequest !== true || aiBody?.kind !== 'json') return undefined;
    if (signedHeaders && provider?.kind === CHECKS_SIGNATURES) return undefined;
    const options = aiBody.params[INCLUDE_USAGE[0]];
    if (typeof options === 'object' && options !== null && Reflect.get(options, INCLUDE_USAGE[1]) === true) return undefined;
    const text = setJsonMember(aiBody.text, INCLUDE_USAGE, true);
    // Options that have no members are the provider's to refuse.
    if (text === undefined) return undefined;
    takeBytes(exchange, Buffer.from(text));
    exchange.hidesUsage = true;
    return undefined;
  },
};
