import type { UnitCounts } from './usage-units.ts';

/** Tokens as a provider reported them; undefined members were not reported. Counts are non-negative integers. */
export interface TokenCounts {
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
  image_tokens_in?: number;
  image_tokens_out?: number;
  video_tokens_in?: number;
  video_tokens_out?: number;
  /** Parts of `cached_tokens_in` and of the tokens of their kind. */
  cached_audio_tokens_in?: number;
  cached_image_tokens_in?: number;
  /** Parts of `tokens_out`. */
  reasoning_tokens_out?: number;
  citation_tokens_out?: number;
}

/** Counts of tokens that may have a rate of their own. */
export type PartTokens = Exclude<keyof TokenCounts, 'tokens_in' | 'tokens_out'>;

/** What one model used inside of a call, where the answer tells it apart (decision 6.3): a pass of its own, or a model that a tool ran. */
export interface Pass extends TokenCounts {
  /** Undefined: the model of the call, or of its tool. */
  model: string | undefined;
  /** Type of the tool in the request that says the model, where the answer does not. */
  tool?: string;
}

/** What a call used, all of it: the tokens of its passes are part of its own counts. */
export interface Usage extends TokenCounts {
  /** Undefined: the counts are those of one pass of one model. */
  passes?: readonly Pass[];
  /** What is billed beside tokens. */
  units?: UnitCounts;
  /** Terms of billing that the answer states, each as `name=value`: `service_tier=priority`, `speed=fast`. */
  terms?: readonly string[];
}
