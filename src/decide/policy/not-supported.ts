/**
 * What the language has and nothing in this version enforces. A rule that uses one of these does not load (`not_supported_yet`): nothing is silently
 * accepted. Whoever builds the enforcement takes the line out of this list, and nothing else needs to change here.
 */
export const NOT_SUPPORTED_YET: readonly UnsupportedEffect[] = [];

export type UnsupportedEffect = 'select_connector: custom';
