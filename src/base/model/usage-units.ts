/**
 * What a provider bills beside tokens and an answer counts (decision 6.16): searches that the model made, the call itself, pages that were read, seconds of sound, texts
 * that were spoken.
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
