/** Tokens as a provider reported them; undefined members were not reported. Counts are non-negative integers. */
export interface Usage {
  tokens_in: number;
  tokens_out: number;
  /** Part of `tokens_in`: read from a cache. */
  cached_tokens_in?: number;
  /** Part of `tokens_in`: written to a cache. */
  cache_write_tokens_in?: number;
  /** Part of `cache_write_tokens_in`: to be kept for an hour. */
  cache_write_1h_tokens_in?: number;
  /** Parts of `tokens_in` and of `tokens_out`. */
  audio_tokens_in?: number;
  audio_tokens_out?: number;
  /** Part of `cached_tokens_in` and of `audio_tokens_in`. */
  cached_audio_tokens_in?: number;
  reasoning_tokens_out?: number;
}

/** Counts of tokens that may have a rate of their own. */
export type PartTokens = Exclude<keyof Usage, 'tokens_in' | 'tokens_out' | 'reasoning_tokens_out'>;
