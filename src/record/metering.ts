import type { Price } from '../base/catalogue/types.ts';
import { usdFromPico } from '../base/lib/money.ts';
import type { Usage } from '../base/model/usage.ts';
import { meter } from '../decide/pricing/cost.ts';
import type { UnhashedRecord } from './canonical-record.ts';

export type RecordMetering = NonNullable<UnhashedRecord['metering']>;

/** What a record says of tokens and cost. */
export interface Metered {
  /** Undefined: the provider reported none. */
  readonly usage: Usage | undefined;
  /** All of it is the provider's own count. */
  readonly reported: boolean;
  readonly price: Price;
  readonly model: string | undefined;
  /** `GW_PRICING_CACHED` */
  readonly cachedRates: boolean;
}

/** Tokens, cost and rates from the counts of a call (decision 7.5). */
export function meteringFrom({ usage, reported, price, model, cachedRates }: Metered): RecordMetering {
  const metered = meter(usage, price, cachedRates);
  return {
    tokens_in: usage?.tokens_in ?? 0,
    tokens_out: usage?.tokens_out ?? 0,
    cost_usd: usdFromPico(metered.costPico),
    cached_tokens_in: usage?.cached_tokens_in,
    cache_write_tokens_in: usage?.cache_write_tokens_in,
    cache_write_1h_tokens_in: usage?.cache_write_1h_tokens_in,
    audio_tokens_in: usage?.audio_tokens_in,
    audio_tokens_out: usage?.audio_tokens_out,
    cached_audio_tokens_in: usage?.cached_audio_tokens_in,
    reasoning_tokens_out: usage?.reasoning_tokens_out,
    // The one text of body or answer that is kept: it must neither break the hash nor the key of a roll-up (decision 7.6).
    model: model?.toWellFormed(),
    usage_reported: reported && usage !== undefined,
    rate_in: metered.rateIn,
    rate_out: metered.rateOut,
    rate_cached_in: metered.apart.cachedIn,
    rate_cache_write: metered.apart.cacheWrite,
    rate_cache_write_1h: metered.apart.cacheWrite1h,
    rate_audio_in: metered.apart.audioIn,
    rate_audio_out: metered.apart.audioOut,
    rate_cached_audio_in: metered.apart.cachedAudioIn,
    rate_source: metered.rateSource,
  };
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
    ...meteringFrom({ usage: undefined, reported: false, price, model, cachedRates: false }),
    tokens_in: tokensIn,
    tokens_out: tokensOutMax,
    cost_usd: usdFromPico(pico),
  };
}
