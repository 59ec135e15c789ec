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

/**
 * What one model used inside of a call, where the answer tells it apart (decision 6.3): a pass of its own, or a model
 * that a tool ran.
 */
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

/**
 * What a provider bills beside tokens and an answer counts (decision 6.16): searches that the model made, the call
 * itself, pages that were read, seconds of sound, texts that were spoken.
 */
export const UNITS = [
  'web_searches',
  'file_searches',
  'social_searches',
  'search_units',
  'requests',
  'pages',
  'annotated_pages',
  'audio_seconds',
  'text_messages',
] as const;
export type Unit = (typeof UNITS)[number];

/** Units that are counted as another one, too: they are charged once, at their own rate where there is one. */
export const UNIT_WITHIN: Readonly<Partial<Record<Unit, Unit>>> = { annotated_pages: 'pages' };

/** Counts by unit, each a finite number of at least 0; seconds may be fractions. */
export type UnitCounts = Readonly<Partial<Record<Unit, number>>>;

/** So many US dollars (exact decimal text) for so many of a unit: `{usd: '10', per: 1000}`. */
export interface UnitRate {
  readonly usd: string;
  readonly per: number;
  /** The least that a call with any of it is charged for. */
  readonly least?: number;
}

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

/**
 * Tokens that may have a rate of their own, as a part of the input or the output; with `GW_PRICING_CACHED` only
 * (decision 6.3).
 */
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
