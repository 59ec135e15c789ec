/** What a thrown value says. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The code of an error of Node or the system (`ENOENT`); empty when it has none. */
export function codeOf(thrown: unknown): string {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : '';
}

/** Whether a path leads to nothing: no such file, or something in the place of one of its folders. */
export function isMissing(thrown: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(codeOf(thrown));
}
