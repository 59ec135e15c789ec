import type { PartTokens } from './usage.ts';

/** Rates that a price may state beside those of input and output. */
export type PartRate =
  | 'cachedIn'
  | 'cacheWrite'
  | 'cacheWrite1h'
  | 'audioIn'
  | 'cachedAudioIn'
  | 'audioOut'
  | 'imageIn'
  | 'cachedImageIn'
  | 'imageOut'
  | 'videoIn'
  | 'videoOut'
  | 'reasoningOut'
  | 'citationOut';

/** Tokens that may have a rate of their own, as a part of the input or the output; with `GW_PRICING_CACHED` only (decision 6.3). */
export interface RateKind {
  readonly rate: PartRate;
  /** The same in the rows of a price list, and where a wire format says which counts these are. */
  readonly member: string;
  readonly tokens: PartTokens;
  readonly of: 'in' | 'out';
  /** Kinds that these tokens are a part of. Their rates, in this order, stand in for one that is not stated. */
  readonly within: readonly PartRate[];
}

function kind(rate: PartRate, member: string, tokens: PartTokens, of: RateKind['of'], within: readonly PartRate[] = []): RateKind {
  return { rate, member, tokens, of, within };
}

/** Every kind, those that are a part of another before it. */
export const RATE_KINDS: readonly RateKind[] = [
  kind('cachedAudioIn', 'cached_audio_in', 'cached_audio_tokens_in', 'in', ['cachedIn', 'audioIn']),
  kind('cachedImageIn', 'cached_image_in', 'cached_image_tokens_in', 'in', ['cachedIn', 'imageIn']),
  kind('cacheWrite1h', 'cache_write_1h', 'cache_write_1h_tokens_in', 'in', ['cacheWrite']),
  kind('cachedIn', 'cached_in', 'cached_tokens_in', 'in'),
  kind('cacheWrite', 'cache_write', 'cache_write_tokens_in', 'in'),
  kind('audioIn', 'audio_in', 'audio_tokens_in', 'in'),
  kind('imageIn', 'image_in', 'image_tokens_in', 'in'),
  kind('videoIn', 'video_in', 'video_tokens_in', 'in'),
  kind('audioOut', 'audio_out', 'audio_tokens_out', 'out'),
  kind('imageOut', 'image_out', 'image_tokens_out', 'out'),
  kind('videoOut', 'video_out', 'video_tokens_out', 'out'),
  kind('reasoningOut', 'reasoning_out', 'reasoning_tokens_out', 'out'),
  kind('citationOut', 'citation_out', 'citation_tokens_out', 'out'),
];
