import type { UsageAskRule } from '../../base/catalogue/dialect-rules.ts';
import { setJsonMember } from '../../base/json/json-edit.ts';
import { queryOf } from '../../inbound/normalise/path.ts';
import { isWatched } from '../answer/used.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Content, Parts } from '../parts/parts.ts';
import { defineStage } from '../parts/stage.ts';
import { withBytes } from '../parts/with-bytes.ts';

const READ = ['judgement', 'route', 'mutated', 'dressed', 'signed', 'hold'] as const;
type Read = Pick<Parts, (typeof READ)[number]>;

const INCLUDE_USAGE = ['stream_options', 'include_usage'] as const;
/** Kind of the providers that check a signature. To any other one it is a word of the caller's, which must not keep its stream from being metered. */
const CHECKS_SIGNATURES = 'aws';

/**
 * `GW_METER_INJECT_USAGE`: asks for the usage of a stream whose caller does not, by default where a cap or limit watches what it costs (decision 6.4). What policy has
 * seen and the record's hash stay the caller's request; one that its caller signed is left as it is.
 */
export const askForUsage = defineStage({
  name: 'ask for usage',
  reads: READ,
  sees: ['intake'],
  makes: ['outgoing'],
  run(parts, { settings }) {
    const { mutated, dressed, intake } = parts;
    const text = isAsked(parts, settings) ? withUsage(mutated) : undefined;
    const { headers } = dressed;
    if (text === undefined) return { outgoing: { headers, bytes: mutated.bytes, hidesUsage: false } };
    const sent = withBytes({ ...mutated, headers }, Buffer.from(text), intake);
    return { outgoing: { headers: sent.headers, bytes: sent.bytes, hidesUsage: true } };
  },
});

/** Undefined where the caller asks for it, and for options that have no members: those are the provider's to refuse. */
function withUsage({ body }: Content): string | undefined {
  if (body?.kind !== 'json') return undefined;
  const options = body.params[INCLUDE_USAGE[0]];
  if (typeof options === 'object' && options !== null && Reflect.get(options, INCLUDE_USAGE[1]) === true) return undefined;
  return setJsonMember(body.text, INCLUDE_USAGE, true);
}

function isAsked(parts: Read, { injectUsage }: PipelineSettings): boolean {
  const { route, signed, mutated, dressed } = parts;
  const { operation, stream, provider } = route;
  if (injectUsage === 'false' || !stream || operation?.dialect?.usageOnRequest !== true) return false;
  if (signed.headers && provider?.kind === CHECKS_SIGNATURES) return false;
  if (injectUsage === 'capped' && !isWatched(parts)) return false;
  const { usageAskedIf } = operation.dialect;
  return usageAskedIf === undefined || mayAsk(dressed.path, mutated.params, usageAskedIf);
}

function mayAsk(path: string, params: Content['params'], { version, without }: UsageAskRule): boolean {
  if (without.some((name) => Object.hasOwn(params, name))) return false;
  return version === undefined || (new URLSearchParams(queryOf(path)).get(version.query) ?? '') >= version.since;
}
