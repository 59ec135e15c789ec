import type { PartRate, Unit } from '../../model/usage.ts';

/** What a price key of the list is for: so many US dollars per million tokens of a kind, or for so many of a unit. */
export type ListKey = { readonly rate: 'in' | 'out' | PartRate } | { readonly unit: Unit; readonly per: number };

const KCOUNT = 1_000;
const HOUR_SECONDS = 3_600;

/**
 * The keys that prices here can hold. Of several that say the same the first counts: the list states `audio_hours` and
 * `input_audio_hours` for one length of sound.
 */
export const LIST_KEYS: ReadonlyMap<string, ListKey> = new Map<string, ListKey>([
  ['input_mtok', { rate: 'in' }],
  ['output_mtok', { rate: 'out' }],
  ['cache_read_mtok', { rate: 'cachedIn' }],
  ['cache_write_mtok', { rate: 'cacheWrite' }],
  ['cache_write_1h_mtok', { rate: 'cacheWrite1h' }],
  ['input_audio_mtok', { rate: 'audioIn' }],
  ['cache_audio_read_mtok', { rate: 'cachedAudioIn' }],
  ['output_audio_mtok', { rate: 'audioOut' }],
  ['input_image_mtok', { rate: 'imageIn' }],
  ['cache_image_read_mtok', { rate: 'cachedImageIn' }],
  ['output_image_mtok', { rate: 'imageOut' }],
  ['input_video_mtok', { rate: 'videoIn' }],
  ['output_video_mtok', { rate: 'videoOut' }],
  ['output_reasoning_mtok', { rate: 'reasoningOut' }],
  ['output_citation_mtok', { rate: 'citationOut' }],
  ['web_searches_kcount', { unit: 'web_searches', per: KCOUNT }],
  ['storage_searches_kcount', { unit: 'file_searches', per: KCOUNT }],
  ['social_searches_kcount', { unit: 'social_searches', per: KCOUNT }],
  ['rerank_searches_kcount', { unit: 'search_units', per: KCOUNT }],
  ['requests_kcount', { unit: 'requests', per: KCOUNT }],
  ['input_document_kpages', { unit: 'pages', per: KCOUNT }],
  ['input_annotated_document_kpages', { unit: 'annotated_pages', per: KCOUNT }],
  ['input_audio_hours', { unit: 'audio_seconds', per: HOUR_SECONDS }],
  ['output_audio_hours', { unit: 'audio_seconds', per: HOUR_SECONDS }],
  ['audio_hours', { unit: 'audio_seconds', per: HOUR_SECONDS }],
  ['input_text_messages_kcount', { unit: 'text_messages', per: KCOUNT }],
]);

export function isKnownKey(key: string): boolean {
  return LIST_KEYS.has(key);
}
