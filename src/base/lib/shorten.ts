/** Most characters of a stranger's word that a message, a record or a log line quotes. */
export const MAX_QUOTED = 60;

/** Most characters of one text that a record keeps: paths are the only ones that may be longer before. */
export const MAX_RECORDED = 2_048;

/**
 * The beginning of a text that a stranger chose, `…` behind it when there is more: what goes into a record, a log line, a metric or an answer of ours is short,
 * and well-formed.
 * @param max UTF-16 units
 */
export function shorten(text: string, max = MAX_QUOTED): string {
  return text.length <= max ? text : `${text.slice(0, max).toWellFormed()}…`;
}
