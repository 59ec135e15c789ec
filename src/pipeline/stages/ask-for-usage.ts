import type { UsageAskRule } from '../../base/catalogue/types.ts';
import { setJsonMember } from '../../inbound/normalise/json-edit.ts';
import { queryOf } from '../../inbound/normalise/path.ts';
import type { Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { isWatched } from '../unreported-usage.ts';
import { takeBytes } from './mutate.ts';

const INCLUDE_USAGE = ['stream_options', 'include_usage'] as const;
/** Kind of the providers that check a signature. To any other one it is a word of the caller's, which must not keep its stream from being metered. */
const CHECKS_SIGNATURES = 'aws';

/**
 * `GW_METER_INJECT_USAGE`: asks for the usage of a stream whose caller does not, by default where a cap or limit watches what it costs (decision 6.4). What policy has
 * seen and the record's hash stay the caller's request; one that its caller signed is left as it is.
 */
export const askForUsage: Stage = {
  name: 'ask for usage',
  run(exchange, { settings }) {
    const { aiBody } = exchange;
    if (aiBody?.kind !== 'json' || !isAsked(exchange, settings)) return undefined;
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

function isAsked(exchange: Exchange, { injectUsage }: Pipeline['settings']): boolean {
  const { operation, stream, signedHeaders, provider } = exchange;
  if (injectUsage === 'false' || !stream || operation?.dialect?.usageOnRequest !== true) return false;
  if (signedHeaders && provider?.kind === CHECKS_SIGNATURES) return false;
  if (injectUsage === 'capped' && !isWatched(exchange)) return false;
  const { usageAskedIf } = operation.dialect;
  return usageAskedIf === undefined || mayAsk(exchange, usageAskedIf);
}

function mayAsk({ path, params }: Exchange, { version, without }: UsageAskRule): boolean {
  if (without.some((name) => Object.hasOwn(params, name))) return false;
  return version === undefined || (new URLSearchParams(queryOf(path)).get(version.query) ?? '') >= version.since;
}
