import type { Principal } from '../../base/model/principal.ts';

/**
 * The one org that a management or MCP key is of: everything that it asks for is that org's.
 * @throws TypeError when it is nobody's, which is a mistake in a table
 */
export function orgOf({ orgId, kind }: Principal): string {
  if (orgId === undefined) throw new TypeError(`a principal of the kind ${kind} asks a management operation`);
  return orgId;
}

/** Who has decided, where nobody is named. */
export function nameOf({ name, id }: Principal): string {
  return name ?? id;
}
