import type { Price } from '../base/catalogue/types.ts';
import { usdFromPico } from '../base/lib/money.ts';
import type { MeteredPass, MeteredUnit } from '../base/model/execution-record.ts';
import { RATE_KINDS } from '../base/model/usage.ts';
import type { Charged } from '../decide/pricing/answered-price.ts';
import { meter, type PassCost, type UnitCost } from '../decide/pricing/cost.ts';
import type { UnhashedRecord } from './canonical-record.ts';

export type RecordMetering = NonNullable<UnhashedRecord['metering']>;

/** How a call was counted. */
export interface Counting {
  /** All of it is the provider's own count. */
  readonly reported: boolean;
  /** `GW_PRICING_CACHED` */
  readonly cachedRates: boolean;
}

/** Tokens, cost and rates from the counts of a call (decision 7.5). */
export function meteringFrom({ usage, price, model, passPrices }: Charged, { reported, cachedRates }: Counting): RecordMetering {
  const metered = meter(usage, price, cachedRates, passPrices);
  const { apart, passes, unpriced } = metered;
  return {
    tokens_in: usage?.tokens_in ?? 0,
    tokens_out: usage?.tokens_out ?? 0,
    cost_usd: usdFromPico(metered.costPico),
    billing: price.plan === true ? 'plan' : undefined,
    cached_tokens_in: usage?.cached_tokens_in,
    cache_write_tokens_in: usage?.cache_write_tokens_in,
    cache_write_1h_tokens_in: usage?.cache_write_1h_tokens_in,
    audio_tokens_in: usage?.audio_tokens_in,
    audio_tokens_out: usage?.audio_tokens_out,
    cached_audio_tokens_in: usage?.cached_audio_tokens_in,
    image_tokens_in: usage?.image_tokens_in,
    image_tokens_out: usage?.image_tokens_out,
    cached_image_tokens_in: usage?.cached_image_tokens_in,
    video_tokens_in: usage?.video_tokens_in,
    video_tokens_out: usage?.video_tokens_out,
    reasoning_tokens_out: usage?.reasoning_tokens_out,
    citation_tokens_out: usage?.citation_tokens_out,
    // The one text of body or answer that is kept: it must neither break the hash nor the key of a roll-up (decision
    // 7.6).
    model: model?.toWellFormed(),
    usage_reported: reported && usage !== undefined,
    rate_in: metered.rateIn,
    rate_out: metered.rateOut,
    rate_cached_in: apart.cachedIn,
    rate_cache_write: apart.cacheWrite,
    rate_cache_write_1h: apart.cacheWrite1h,
    rate_audio_in: apart.audioIn,
    rate_audio_out: apart.audioOut,
    rate_cached_audio_in: apart.cachedAudioIn,
    rate_image_in: apart.imageIn,
    rate_image_out: apart.imageOut,
    rate_cached_image_in: apart.cachedImageIn,
    rate_video_in: apart.videoIn,
    rate_video_out: apart.videoOut,
    rate_reasoning_out: apart.reasoningOut,
    rate_citation_out: apart.citationOut,
    rate_source: unpriced !== undefined || passes?.some(isByDefault) ? 'default' : metered.rateSource,
    passes: passes?.map(meteredPass),
    units: metered.units && Object.fromEntries(metered.units.map((cost) => [cost.unit, meteredUnit(cost)])),
    terms: usage?.terms,
    unpriced: unpriced ?? passes?.find((pass) => pass.unpriced !== undefined)?.unpriced,
  };
}

function isByDefault({ rateSource, unpriced }: PassCost): boolean {
  return rateSource === 'default' || unpriced !== undefined;
}

/** Only what there is: of most calls there are no passes, and of those no two alike. */
function meteredPass({ pass, apart, ...cost }: PassCost): MeteredPass {
  const { model, tool: _, ...counts } = pass;
  const rates = RATE_KINDS.flatMap(({ rate, member, tokens }): readonly (readonly [string, string])[] => {
    const text = apart[rate];
    return text === undefined || pass[tokens] === undefined ? [] : [[`rate_${member}`, text]];
  });
  return {
    ...counts,
    ...(model === undefined ? {} : { model: model.toWellFormed() }),
    cost_usd: usdFromPico(cost.costPico),
    rate_in: cost.rateIn,
    rate_out: cost.rateOut,
    ...Object.fromEntries(rates),
    rate_source: cost.rateSource,
  };
}

function meteredUnit({ count, rate, costPico }: UnitCost): MeteredUnit {
  return { count, cost_usd: usdFromPico(costPico), per: rate.per, rate_usd: rate.usd };
}

/** What a call is expected to use, and what was set aside for that. */
export interface Estimated {
  readonly tokensIn: number;
  readonly tokensOutMax: number;
  readonly pico: bigint;
  readonly price: Price;
  readonly model: string | undefined;
}

/** What a call is charged whose usage will not be known: what was set aside for it. */
export function estimatedMetering({ tokensIn, tokensOutMax, pico, price, model }: Estimated): RecordMetering {
  return {
    ...meteringFrom({ usage: undefined, price, model, passPrices: undefined }, { reported: false, cachedRates: false }),
    tokens_in: tokensIn,
    tokens_out: tokensOutMax,
    cost_usd: usdFromPico(pico),
  };
}
