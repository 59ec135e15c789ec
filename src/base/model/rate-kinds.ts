import type { PartTokens } from './usage.ts';

/** Rates that a price may state beside those of input and output. */
export type PartRate = 'cachedIn' | 'cacheWrite' | 'cacheWrite1h' | 'audioIn' | 'cachedAudioIn' | 'audioOut';

/** Tokens that may have a rate of their own, as a part of the input or the output. */
export interface RateKind {
  readonly rate: PartRate;
  /** The same in the rows of a price list, and where a wire format says which counts these are. */
  readonly member: string;
  readonly tokens: PartTokens;
  readonly of: 'in' | 'out';
  /** Used with `GW_PRICING_CACHED` only (decision 6.3). */
  readonly cache: boolean;
  /** Kinds that these tokens are a part of. Their rates, in this order, stand in for one that is not stated. */
  readonly within: readonly PartRate[];
}

/** Every kind, those that are a part of another before it. */
export const RATE_KINDS: readonly RateKind[] = [
  {
    rate: 'cachedAudioIn',
    member: 'cached_audio_in',
    tokens: 'cached_audio_tokens_in',
    of: 'in',
    cache: true,
    within: ['cachedIn', 'audioIn'],
  },
  { rate: 'cacheWrite1h', member: 'cache_write_1h', tokens: 'cache_write_1h_tokens_in', of: 'in', cache: true, within: ['cacheWrite'] },
  { rate: 'cachedIn', member: 'cached_in', tokens: 'cached_tokens_in', of: 'in', cache: true, within: [] },
  { rate: 'cacheWrite', member: 'cache_write', tokens: 'cache_write_tokens_in', of: 'in', cache: true, within: [] },
  { rate: 'audioIn', member: 'audio_in', tokens: 'audio_tokens_in', of: 'in', cache: false, within: [] },
  { rate: 'audioOut', member: 'audio_out', tokens: 'audio_tokens_out', of: 'out', cache: false, within: [] },
];
