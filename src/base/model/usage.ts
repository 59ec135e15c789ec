/** Tokens as a provider reported them; undefined members were not reported. Counts are non-negative integers. */
export interface Usage {
  tokens_in: number;
  tokens_out: number;
  cached_tokens_in?: number;
  reasoning_tokens_out?: number;
}
