/** Tokens as a provider reported them; undefined members were not reported. Counts are non-negative integers. */
export interface Usage {
  tokens_in: number;
  tokens_out: number;
  /** Part of `tokens_in`: read from a cache. */
  cached_tokens_in?: number;
  /** Part of `tokens_in`: written to a cache. */
  cache_write_tokens_in?: number;
  reasoning_tokens_out?: number;
}
